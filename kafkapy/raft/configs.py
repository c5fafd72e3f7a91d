"""Changing configurations: pure decisions on an image, with Apache Kafka's codes and sentences.

What a change makes of a resource's values and whether it may is in config/dynamic.py; here are the resources and the records.
Each resource is changed or refused by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.dynamic import Change, changed_values, check_node_id, replaced_values, validate_values
from kafkapy.config.resources import ResourceType
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.elections import with_consequences
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.leadership import ELR_FEATURE, MIN_INSYNC_REPLICAS
from kafkapy.raft.topic_names import check_topic_name
from kafkapy.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkapy.wire.messages.alter_configs import AlterConfigsResourceResponse as ReplacedResponse
from kafkapy.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkapy.wire.metadata_records import ConfigRecord
from kafkapy.wire.schema import Record

VALUE_BYTES_MAX = 32767

_CHANGEABLE = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)


class _Resource(Protocol):
    """What the two requests have in common."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=_Resource)


def incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, config: BrokerConfig
) -> Decision:
    """Set, delete, append and subtract single values."""
    errors, records = _alter(
        image,
        request.resources,
        config,
        lambda resource, current: changed_values(
            resource.resource_type,
            current,
            [Change(one.name, one.config_operation, one.value) for one in resource.configs],
        ),
    )
    responses = [
        AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=one.resource_type, resource_name=one.resource_name
        )
        for one, (code, message) in zip(request.resources, errors, strict=True)
    ]
    response = IncrementalAlterConfigsResponse(responses=responses)
    return Decision([], response) if request.validate_only else with_consequences(image, records, response, config)


def alter_configs(image: MetadataImage, request: AlterConfigsRequest, config: BrokerConfig) -> Decision:
    """Put these values in the place of all that a resource has."""
    errors, records = _alter(
        image,
        request.resources,
        config,
        lambda resource, current: replaced_values((one.name, one.value) for one in resource.configs),
    )
    responses = [
        ReplacedResponse(
            error_code=code, error_message=message, resource_type=one.resource_type, resource_name=one.resource_name
        )
        for one, (code, message) in zip(request.resources, errors, strict=True)
    ]
    response = AlterConfigsResponse(responses=responses)
    return Decision([], response) if request.validate_only else with_consequences(image, records, response, config)


def _alter(
    image: MetadataImage,
    resources: Sequence[R],
    config: BrokerConfig,
    change: Callable[[R, Mapping[str, str]], dict[str, str]],
) -> tuple[list[tuple[int, str | None]], list[Record]]:
    """For each resource its error, and the records of those that have none."""
    errors: list[tuple[int, str | None]] = []
    records: list[Record] = []
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        try:
            if times[kind, name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if kind not in _CHANGEABLE:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
            if kind == ResourceType.BROKER and name:
                _check_broker(image, name, config.node_id)
            current = image.config(kind, name)
            values = change(resource, current)
            _check_exists(image, kind, name)
            _check_min_insync_replicas(image, kind, name, current, values)
            # What another broker may have is judged by what this one may: their files are no part of the metadata.
            judged = str(config.node_id) if kind == ResourceType.BROKER and name else name
            validate_values(kind, judged, values, config)
            changed = _records(kind, name, current, values)
            if len(records) + len(changed) > DECISION_RECORDS_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of changes per request.")
        except KafkaError as error:
            errors.append((error.code, error.message or error.code.explanation))
        else:
            errors.append((ErrorCode.NONE, None))
            records += changed
    return errors, records


def _check_broker(image: MetadataImage, name: str, node_id: int) -> None:
    """A broker's own values: this node's, or those of a broker that may have passed the request on to this node as the controller."""
    if not name.isdecimal() or int(name) not in image.brokers:
        check_node_id(name, node_id)


def _check_exists(image: MetadataImage, kind: int, name: str) -> None:
    """Groups and subscriptions may be configured before there is anything of that name; topics not."""
    if kind == ResourceType.TOPIC and name:
        check_topic_name(name)
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_min_insync_replicas(
    image: MetadataImage, kind: int, name: str, current: Mapping[str, str], values: Mapping[str, str]
) -> None:
    """Eligible leader replicas follow from min.insync.replicas, so all brokers must have the same value, and one at all."""
    if kind != ResourceType.BROKER or not image.features.get(ELR_FEATURE):
        return
    if name and values.get(MIN_INSYNC_REPLICAS) != current.get(MIN_INSYNC_REPLICAS):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if not name and MIN_INSYNC_REPLICAS in current and MIN_INSYNC_REPLICAS not in values:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def _records(kind: int, name: str, current: Mapping[str, str], values: Mapping[str, str]) -> list[Record]:
    """One record for each key that differs."""
    records: list[Record] = []
    for key in sorted(current.keys() | values.keys()):
        value = values.get(key)
        if value == current.get(key):
            continue
        if value is not None and len(value.encode()) > VALUE_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes.",
            )
        records.append(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))
    return records
