"""Changing configurations while the broker runs: what a change makes of a resource's values, and whether it may.

All of it is plain mappings: the values that are set now and the wanted changes go in, the values after the change come out,
or a KafkaError with the code and the sentence that Apache Kafka has for it. Where the values are kept is not known here.

    values = changed_values(ResourceType.TOPIC, current, [Change("retention.ms", ConfigOperation.SET, "1000")])
    validate_values(ResourceType.TOPIC, "my-topic", values, broker_config)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, cast

from kafkapy.config.broker_checks import check_broker_config
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.client_metrics_configs import validate_client_metrics_configs
from kafkapy.config.definitions import ConfigKey, ConfigType, UpdateMode, format_value
from kafkapy.config.describe import find_broker_key, is_dynamic
from kafkapy.config.group_configs import GROUP_KEYS, validate_group_configs
from kafkapy.config.log_config import topic_defaults, validate_topic_configs
from kafkapy.config.quota_configs import BROKER_QUOTA_KEYS
from kafkapy.config.resources import ConfigOperation, ResourceType
from kafkapy.config.topic_configs import TOPIC_KEYS
from kafkapy.config.validators import ConfigException
from kafkapy.errors import ErrorCode, KafkaError

# The files and secrets of TLS belong to one listener each, so they cannot change for all listeners at once.
_PER_LISTENER_ONLY = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        "keystore.certificate.chain",
        "keystore.key",
        "keystore.location",
        "keystore.password",
        "keystore.type",
        "truststore.certificates",
        "truststore.location",
        "truststore.password",
        "truststore.type",
    )
)

# Kafka grows and shrinks its thread pools by at most a factor of two at a time. Tools that step towards a goal rely on the
# refusal, so the rule holds here too although there are no such threads.
_THREAD_COUNTS = (
    "num.io.threads",
    "num.network.threads",
    "background.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
)


class Change(NamedTuple):
    """One change of IncrementalAlterConfigs; `operation` as it came over the wire."""

    name: str
    operation: int
    value: str | None


def changed_values(resource_type: int, current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The values of a resource after the changes. Nothing is checked yet but the changes themselves."""
    changes = tuple(changes)
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != ConfigOperation.DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    values = dict(current)
    for name, operation, value in changes:
        if operation == ConfigOperation.SET:
            values[name] = cast(str, value)
        elif operation == ConfigOperation.DELETE:
            values.pop(name, None)
        elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            values[name] = _changed_list(resource_type, name, operation, cast(str, value), values.get(name))
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    return values


def replaced_values(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The values of a resource after the older AlterConfigs, which says all of them at once."""
    configs = tuple(configs)
    values = {name: value for name, value in configs if value is not None}
    if len({name for name, _ in configs}) != len(configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if len(values) != len(configs):
        nulls = [name for name, value in configs if value is None]
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return values


def validate_values(resource_type: int, name: str, values: Mapping[str, str], broker: BrokerConfig) -> None:
    """Refuse values that a topic, group, subscription or broker cannot have, all of them as after the change.

    For a broker `broker` must be its own configuration. Whether the resource exists is for the caller to know.
    """
    if resource_type == ResourceType.TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        validate_topic_configs(values, topic_defaults(broker))
    elif resource_type == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        validate_group_configs(values, broker)
    elif resource_type == ResourceType.CLIENT_METRICS:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        validate_client_metrics_configs(values)
    elif resource_type == ResourceType.BROKER:
        if name:
            check_node_id(name, broker.node_id)
        _validate_broker_values(bool(name), values, broker)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def check_node_id(name: str, node_id: int) -> None:
    """Refuse the name of a broker resource that does not mean this node: a broker changes only itself."""
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")


def reconfigured(
    broker: BrokerConfig, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
) -> tuple[BrokerConfig, list[str]]:
    """The configuration with the stored changes, and a sentence for each that is left out because it is not legal.

    A change can be stored and not be legal when the properties file has changed since, or was written by another version.
    """
    levels = [dict(dynamic_broker), dict(dynamic_default)]
    ignored: list[str] = []
    while True:
        try:
            config = broker.reconfigured(levels[1], levels[0])
            check_broker_config(config)
        except ConfigException as error:
            culprit = next((level for level in levels if error.name in level), None)
            if culprit is None:  # The fault lies between a change and the file: only the file is known to be good.
                return broker.reconfigured({}, {}), [*ignored, f"all dynamic changes are ignored: {error}"]
            del culprit[cast(str, error.name)]
            ignored.append(f"the dynamic change of {error.name} is ignored: {error}")
        else:
            return config, ignored


def _changed_list(resource_type: int, name: str, operation: int, value: str, current: str | None) -> str:
    """The list after APPEND or SUBTRACT. A list that is not set begins as the key's default."""
    key = _find_key(resource_type, name)
    if key is None or key.type is not ConfigType.LIST:
        verb = ConfigOperation(operation).name
        if resource_type == ResourceType.BROKER and key is None:
            message = f"Unknown config name: {name}"
        elif resource_type == ResourceType.BROKER:
            message = f"Config value {verb.lower()} is not allowed for config key: {name}"
        else:
            message = f"Can't {verb} to key {name} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    text = (format_value(key.default) or "") if current is None else current
    items = [item for item in text.split(",") if item]
    if operation == ConfigOperation.APPEND:
        items += [item for item in value.split(",") if item not in items]
    else:
        removed = set(value.split(","))
        items = [item for item in items if item not in removed]
    return ",".join(items)


def _find_key(resource_type: int, name: str) -> ConfigKey | None:
    """The key that may be appended to. Kafka does not count client metrics among them."""
    if resource_type == ResourceType.TOPIC:
        return TOPIC_KEYS.get(name)
    if resource_type == ResourceType.GROUP:
        return GROUP_KEYS.get(name)
    return find_broker_key(name) if resource_type == ResourceType.BROKER else None


def _validate_broker_values(per_broker: bool, values: Mapping[str, str], broker: BrokerConfig) -> None:
    """A key that nobody knows passes: plug-ins have theirs, and DescribeConfigs hides its value."""
    own = broker.dynamic_broker if per_broker else broker.dynamic_default
    new = {name: text for name, text in values.items() if own.get(name) != text}
    _refuse(new, "Cannot update these configs dynamically", lambda name: name in BROKER_KEYS and not is_dynamic(name))
    _refuse(
        new,
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        lambda name: name in _PER_LISTENER_ONLY,
    )
    try:
        for name, text in new.items():
            key = find_broker_key(name)
            if key is not None:
                key.parse(text)
    except ConfigException as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    if not per_broker:
        _refuse(
            new,
            "Cannot update these configs at default cluster level, broker id must be specified",
            _is_for_one_broker,
        )
    known = {name: text for name, text in values.items() if name in BROKER_KEYS or name in BROKER_QUOTA_KEYS}
    try:
        if per_broker:
            after = broker.reconfigured(broker.dynamic_default, known)
        else:
            after = broker.reconfigured(known, broker.dynamic_broker)
        check_broker_config(after)
    except ConfigException as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    _check_local_retention(after, "log.local.retention.ms", "log.retention.ms", after.log_retention_ms)
    _check_local_retention(after, "log.local.retention.bytes", "log.retention.bytes", after.log_retention_bytes)
    for name in _THREAD_COUNTS:
        _check_thread_count(name, cast(int, broker.values[name]), cast(int, after.values[name]))


def _refuse(values: Mapping[str, str], message: str, is_bad: Callable[[str], bool]) -> None:
    bad = sorted(name for name in values if is_bad(name))
    if bad:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{message}: [{', '.join(bad)}]")


def _is_for_one_broker(name: str) -> bool:
    key = find_broker_key(name)
    return key is not None and (key.update_mode is UpdateMode.PER_BROKER or name.startswith("listener.name."))


def _check_local_retention(after: BrokerConfig, local: str, total: str, limit: int) -> None:
    """What stays on the local disk of a tiered log cannot be more than the whole log; -2 is as much as the whole."""
    kept = cast(int, after.values[local])
    if limit == -1 or kept == -2:
        return
    reason = None
    if kept == -1:
        reason = f"Value must not be -1 as {total} value is set as {limit}."
    elif kept > limit:
        reason = f"Value must not be more than {total} property value: {limit}"
    if reason:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(ConfigException.invalid(local, kept, reason)))


def _check_thread_count(name: str, before: int, after: int) -> None:
    problem = None
    if after * 2 < before:
        problem = f"value should be at least half the current value {before}"
    elif after > before * 2:
        problem = f"value should not be greater than double the current value {before}"
    if problem:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Dynamic thread count update validation failed for {name}={after}, {problem}",
        )
