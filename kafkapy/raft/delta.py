"""What a run of metadata records changes: replay them one by one, then make the next image.

`MetadataDelta.replay` takes a record to the function for its type; there is one for every type. Nothing else changes the cluster's state:
a decision of the controller counts when its records are replayed, on the controller ahead of the commit and on every node after it.

A record that doesn't fit the image (a partition of an unknown topic) is a mistake of ours or a foreign log, and raises ReplayError: to skip
it would mean that two nodes no longer agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkapy.raft.image import (
    TOPIC,
    AccessControlEntry,
    BrokerRegistration,
    ConfigResource,
    ControllerRegistration,
    DelegationToken,
    FeatureRange,
    Listener,
    MetadataImage,
    QuotaEntity,
    ScramCredential,
)
from kafkapy.raft.image_records import partition_record
from kafkapy.raft.topics_delta import ReplayError, TopicsDelta
from kafkapy.wire import metadata_records as records
from kafkapy.wire.schema import Record

_PERSISTENT_MAPS = ("configs", "client_quotas", "scram_credentials", "acls", "delegation_tokens")


class MetadataDelta:
    """The changes on top of `base`. Publishers read it to see what they have to do; fields hold only what was touched."""

    __slots__ = (
        "acls",
        "base",
        "brokers",
        "client_quotas",
        "configs",
        "controllers",
        "delegation_tokens",
        "features",
        "next_producer_id",
        "record_count",
        "scram_credentials",
        "topics",
    )

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.record_count = 0
        self.topics = TopicsDelta(base.topics)
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.brokers: dict[int, BrokerRegistration | None] = {}
        self.controllers: dict[int, ControllerRegistration | None] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id: int | None = None
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.scram_credentials: dict[tuple[str, int], ScramCredential | None] = {}
        self.acls: dict[bytes, AccessControlEntry | None] = {}
        self.delegation_tokens: dict[str, DelegationToken | None] = {}

    def replay(self, record: Record) -> None:
        """Take one record in."""
        _REPLAY[type(record)](self, record)
        self.record_count += 1

    def apply(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataImage:
        """The image after these records; `offset` is that of the last one."""
        base = self.base
        changed: dict[str, Any] = {}
        if self.topics.changed or self.topics.deleted:
            changed["topics"] = self.topics.apply()
        if self.brokers:
            merged = {**base.brokers, **self.brokers}
            changed["brokers"] = {broker_id: broker for broker_id, broker in merged.items() if broker is not None}
        if self.controllers:
            merged_controllers = {**base.controllers, **self.controllers}
            changed["controllers"] = {key: value for key, value in merged_controllers.items() if value is not None}
        if self.features:
            changed["features"] = {name: level for name, level in {**base.features, **self.features}.items() if level}
        if self.next_producer_id is not None:
            changed["next_producer_id"] = self.next_producer_id
        for name in _PERSISTENT_MAPS:
            touched = getattr(self, name)
            if touched:
                kept = {key: value for key, value in touched.items() if value}
                changed[name] = getattr(base, name).updated(kept, touched.keys() - kept.keys())
        return replace(base, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms, **changed)

    # What the image will be, for records that change a part of something.

    def config(self, resource: ConfigResource) -> dict[str, str]:
        """The configuration of a resource, to be changed here."""
        if resource not in self.configs:
            self.configs[resource] = dict(self.base.configs.get(resource) or {})
        return self.configs[resource]

    def broker(self, broker_id: int) -> BrokerRegistration:
        """The registration of a broker as it is now."""
        broker = self.brokers[broker_id] if broker_id in self.brokers else self.base.brokers.get(broker_id)
        if broker is None:
            raise ReplayError(f"broker {broker_id} has not registered")
        return broker


def replay_topic(delta: MetadataDelta, record: records.TopicRecord) -> None:
    delta.topics.create(record.name, record.topic_id)


def replay_partition(delta: MetadataDelta, record: records.PartitionRecord) -> None:
    delta.topics.set_partition(record)


def replay_partition_change(delta: MetadataDelta, record: records.PartitionChangeRecord) -> None:
    delta.topics.change_partition(record)


def replay_remove_topic(delta: MetadataDelta, record: records.RemoveTopicRecord) -> None:
    """A removed topic takes its configuration along."""
    name = delta.topics.remove(record.topic_id)
    delta.config(ConfigResource(TOPIC, name)).clear()


def replay_clear_elr(delta: MetadataDelta, record: records.ClearElrRecord) -> None:
    delta.topics.clear_elr(record.topic_name)


def replay_register_broker(delta: MetadataDelta, record: records.RegisterBrokerRecord) -> None:
    delta.brokers[record.broker_id] = BrokerRegistration(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners=_listeners(record.end_points),
        features=_feature_ranges(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
    )


def replay_unregister_broker(delta: MetadataDelta, record: records.UnregisterBrokerRecord) -> None:
    delta.broker(record.broker_id)
    delta.brokers[record.broker_id] = None


def replay_fence_broker(delta: MetadataDelta, record: records.FenceBrokerRecord) -> None:
    delta.brokers[record.id] = replace(delta.broker(record.id), fenced=True)


def replay_unfence_broker(delta: MetadataDelta, record: records.UnfenceBrokerRecord) -> None:
    delta.brokers[record.id] = replace(delta.broker(record.id), fenced=False)


def replay_broker_change(delta: MetadataDelta, record: records.BrokerRegistrationChangeRecord) -> None:
    changed: dict[str, Any] = {}
    if record.fenced:
        changed["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        changed["in_controlled_shutdown"] = True
    if record.log_dirs:
        changed["log_dirs"] = tuple(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changed["cordoned_log_dirs"] = tuple(record.cordoned_log_dirs)
    delta.brokers[record.broker_id] = replace(delta.broker(record.broker_id), **changed)


def replay_register_controller(delta: MetadataDelta, record: records.RegisterControllerRecord) -> None:
    delta.controllers[record.controller_id] = ControllerRegistration(
        id=record.controller_id,
        incarnation_id=record.incarnation_id,
        listeners=_listeners(record.end_points),
        features=_feature_ranges(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )


def replay_config(delta: MetadataDelta, record: records.ConfigRecord) -> None:
    config = delta.config(ConfigResource(record.resource_type, record.resource_name))
    if record.value is None:
        config.pop(record.name, None)
    else:
        config[record.name] = record.value


def replay_feature_level(delta: MetadataDelta, record: records.FeatureLevelRecord) -> None:
    delta.features[record.name] = record.feature_level


def replay_producer_ids(delta: MetadataDelta, record: records.ProducerIdsRecord) -> None:
    delta.next_producer_id = record.next_producer_id


def replay_client_quota(delta: MetadataDelta, record: records.ClientQuotaRecord) -> None:
    entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
    if entity not in delta.client_quotas:
        delta.client_quotas[entity] = dict(delta.base.client_quotas.get(entity) or {})
    if record.remove:
        delta.client_quotas[entity].pop(record.key, None)
    else:
        delta.client_quotas[entity][record.key] = record.value


def replay_scram_credential(delta: MetadataDelta, record: records.UserScramCredentialRecord) -> None:
    credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
    delta.scram_credentials[record.name, record.mechanism] = credential


def replay_remove_scram_credential(delta: MetadataDelta, record: records.RemoveUserScramCredentialRecord) -> None:
    delta.scram_credentials[record.name, record.mechanism] = None


def replay_access_control_entry(delta: MetadataDelta, record: records.AccessControlEntryRecord) -> None:
    delta.acls[record.id] = AccessControlEntry(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def replay_remove_access_control_entry(delta: MetadataDelta, record: records.RemoveAccessControlEntryRecord) -> None:
    delta.acls[record.id] = None


def replay_delegation_token(delta: MetadataDelta, record: records.DelegationTokenRecord) -> None:
    delta.delegation_tokens[record.token_id] = DelegationToken(
        record.owner,
        record.requester,
        tuple(record.renewers),
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )


def replay_remove_delegation_token(delta: MetadataDelta, record: records.RemoveDelegationTokenRecord) -> None:
    delta.delegation_tokens[record.token_id] = None


def replay_nothing(delta: MetadataDelta, record: Record) -> None:
    """A NoOpRecord keeps the log moving; the state of a migration from ZooKeeper changes nothing here; transactions are the loader's."""


def _listeners(endpoints: list[Any]) -> tuple[Listener, ...]:
    return tuple(Listener(point.name, point.host, point.port, point.security_protocol) for point in endpoints)


def _feature_ranges(features: list[Any]) -> dict[str, FeatureRange]:
    return {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version) for feature in features
    }


_REPLAY: dict[type[Record], Callable[[MetadataDelta, Any], None]] = {
    records.TopicRecord: replay_topic,
    records.PartitionRecord: replay_partition,
    records.PartitionChangeRecord: replay_partition_change,
    records.RemoveTopicRecord: replay_remove_topic,
    records.ClearElrRecord: replay_clear_elr,
    records.RegisterBrokerRecord: replay_register_broker,
    records.UnregisterBrokerRecord: replay_unregister_broker,
    records.FenceBrokerRecord: replay_fence_broker,
    records.UnfenceBrokerRecord: replay_unfence_broker,
    records.BrokerRegistrationChangeRecord: replay_broker_change,
    records.RegisterControllerRecord: replay_register_controller,
    records.ConfigRecord: replay_config,
    records.FeatureLevelRecord: replay_feature_level,
    records.ProducerIdsRecord: replay_producer_ids,
    records.ClientQuotaRecord: replay_client_quota,
    records.UserScramCredentialRecord: replay_scram_credential,
    records.RemoveUserScramCredentialRecord: replay_remove_scram_credential,
    records.AccessControlEntryRecord: replay_access_control_entry,
    records.RemoveAccessControlEntryRecord: replay_remove_access_control_entry,
    records.DelegationTokenRecord: replay_delegation_token,
    records.RemoveDelegationTokenRecord: replay_remove_delegation_token,
    records.NoOpRecord: replay_nothing,
    records.ZkMigrationStateRecord: replay_nothing,
    records.BeginTransactionRecord: replay_nothing,
    records.EndTransactionRecord: replay_nothing,
    records.AbortTransactionRecord: replay_nothing,
}


def delta_between(base: MetadataImage, target: MetadataImage) -> MetadataDelta:
    """The changes that lead from one image to another, for whoever follows by deltas when a snapshot has taken the place of the records."""
    delta = MetadataDelta(base)
    for topic_id in base.topics.names_by_id:
        if topic_id not in target.topics.names_by_id:
            delta.topics.remove(topic_id)
    for topic in target.topics.by_name.values():
        before = base.topics.get_by_id(topic.id)
        if before is None:
            delta.topics.create(topic.name, topic.id)
        for number, partition in enumerate(topic.partitions):
            if before is None or number >= len(before.partitions) or before.partitions[number] != partition:
                delta.topics.set_partition(partition_record(topic.id, number, partition))
    for name in ("brokers", "controllers", "features", *_PERSISTENT_MAPS):
        old, new, touched = getattr(base, name), getattr(target, name), getattr(delta, name)
        nothing: Any = {} if name in ("configs", "client_quotas") else 0 if name == "features" else None
        touched.update({key: nothing for key in old if key not in new})
        touched.update({key: value for key, value in new.items() if old.get(key) != value})
    if base.next_producer_id != target.next_producer_id:
        delta.next_producer_id = target.next_producer_id
    return delta
