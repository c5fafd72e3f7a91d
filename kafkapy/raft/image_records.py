"""The records that rebuild an image from nothing, in the order in which a snapshot holds them.

Features first, because metadata.version says how the rest is written; brokers before the topics that name them. Within a kind everything
is sorted, so equal images give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from kafkapy.raft.image import (
    METADATA_VERSION,
    BrokerRegistration,
    ControllerRegistration,
    FeatureRange,
    Listener,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkapy.wire.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kafkapy.wire.schema import Record

E = TypeVar("E", BrokerEndpoint, ControllerEndpoint)
F = TypeVar("F", BrokerFeature, ControllerFeature)


def image_records(image: MetadataImage) -> Iterator[Record]:
    """All of them, one at a time: a large image is never there twice."""
    yield from feature_records(image)
    for _, controller in sorted(image.controllers.items()):
        yield controller_record(controller)
    for _, broker in sorted(image.brokers.items()):
        yield broker_record(broker)
    for name in sorted(image.topics.by_name):
        yield from topic_records(image.topics.by_name[name])
    for resource in sorted(image.configs):
        for key, value in sorted(image.configs[resource].items()):
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=key, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from _security_records(image)


def feature_records(image: MetadataImage) -> Iterator[Record]:
    """The feature levels, metadata.version before all others."""
    if METADATA_VERSION in image.features:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.features[METADATA_VERSION])
    for name, level in sorted(image.features.items()):
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)


def topic_records(topic: TopicImage) -> Iterator[Record]:
    """A topic and its partitions."""
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for number, partition in enumerate(topic.partitions):
        yield partition_record(topic.id, number, partition)


def partition_record(topic_id: bytes, number: int, partition: PartitionImage) -> PartitionRecord:
    """The whole state of a partition."""
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    """A broker's registration with everything that has changed since."""
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[_endpoint(BrokerEndpoint, listener) for listener in broker.listeners],
        features=[_feature(BrokerFeature, name, levels) for name, levels in sorted(broker.features.items())],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    """A controller's registration."""
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[_endpoint(ControllerEndpoint, listener) for listener in controller.listeners],
        features=[_feature(ControllerFeature, name, levels) for name, levels in sorted(controller.features.items())],
    )


def _endpoint(cls: type[E], listener: Listener) -> E:
    return cls(name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.security_protocol)


def _feature(cls: type[F], name: str, levels: FeatureRange) -> F:
    return cls(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)


def _security_records(image: MetadataImage) -> Iterator[Record]:
    for entity in sorted(image.client_quotas, key=repr):
        for key, value in sorted(image.client_quotas[entity].items()):
            yield ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity], key=key, value=value
            )
    for (name, mechanism), credential in sorted(image.scram_credentials.items()):
        yield UserScramCredentialRecord(name=name, mechanism=mechanism, **credential._asdict())
    for acl_id, entry in sorted(image.acls.items()):
        yield AccessControlEntryRecord(id=acl_id, **entry._asdict())
    for token_id, token in sorted(image.delegation_tokens.items()):
        yield DelegationTokenRecord(token_id=token_id, **{**token._asdict(), "renewers": list(token.renewers)})
