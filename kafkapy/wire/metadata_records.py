"""The records of the metadata log: every fact about the cluster is one of these, the cluster's image is their replay.

The value of each record in `__cluster_metadata-0` is a frame (see `record_framing`) around one of the classes below.
All of them use the compact encodings from version 0 on, so a reader skips tagged fields that it doesn't know.

A class stands for all versions of its record. Which version may be written depends on the cluster's metadata.version,
a feature level that the whole cluster agreed on: `record_version` at the end tells it. Reading accepts every version.

Order: topics and partitions, brokers and controllers, configuration and features, transactions of the log itself,
security, the rest.
"""

from kafkapy.wire.schema import (
    Record,
    Struct,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

NO_LEADER_CHANGE = -2
"""`PartitionChangeRecord.leader` when the leader stays as it is; -1 already means that there is no leader."""

METADATA_VERSION_MIN = 7
"""3.3-IV3: the oldest metadata.version that Kafka 4 still runs with."""

METADATA_VERSION_LATEST = 30
"""4.3-IV0: what Kafka 4.3 gives to a new cluster."""


class TopicRecord(Record, type=2, versions="0", flexible="0+"):
    """A topic exists. Its partitions follow as records of their own."""

    name: str = string()
    topic_id: bytes = uuid()


class PartitionRecord(Record, type=3, versions="0-2", flexible="0+"):
    """A partition with its whole state: written at creation and in snapshots.

    Version 1 adds the log directory of each replica.
    Version 2 adds the eligible leader replicas (KIP-966).
    """

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)  # The first one is the preferred leader.
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)  # These two are not empty only while a reassignment runs.
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0, tagged="0+")  # 0 recovered, 1 recovering from an unclean election.
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)  # Grows with every change, also those that leave the leader alone.
    directories: list[bytes] = array(uuid, "1+")  # In the order of replicas.
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=1, tagged="2+")
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=2, tagged="2+")


class PartitionChangeRecord(Record, type=5, versions="0-2", flexible="0+"):
    """What changed in a partition. A field at its default says that this part stays as it was.

    Replaying it raises the partition epoch, and the leader epoch too if there is a new leader.

    Version 1 adds the log directory of each replica.
    Version 2 adds the eligible leader replicas (KIP-966).
    """

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable="0+", default=None, tag=0, tagged="0+")
    leader: int = int32(default=NO_LEADER_CHANGE, tag=1, tagged="0+")
    replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=2, tagged="0+")
    removing_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=3, tagged="0+")
    adding_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=4, tagged="0+")
    leader_recovery_state: int = int8(default=-1, tag=5, tagged="0+")
    directories: list[bytes] | None = array(uuid, "1+", nullable="1+", default=None, tag=8, tagged="1+")
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=6, tagged="2+")
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=7, tagged="2+")


class RemoveTopicRecord(Record, type=9, versions="0", flexible="0+"):
    """A topic is gone, and with it its partitions; its configuration is removed by ConfigRecords of their own."""

    topic_id: bytes = uuid()


class ClearElrRecord(Record, type=28, versions="0", flexible="0+"):
    """The eligible leader replicas of a topic are forgotten, because min.insync.replicas changed."""

    topic_name: str = string()  # Empty: of all topics.


class BrokerEndpoint(Struct):
    """Where one listener of a broker can be reached."""

    name: str = string()  # Of the listener, such as PLAINTEXT or EXTERNAL.
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.


class BrokerFeature(Struct):
    """The range of levels that a broker can run for one feature."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Record, type=0, versions="0-4", flexible="0+"):
    """A broker process has joined. The offset of this record becomes the broker's epoch.

    Version 1 adds the controlled shutdown state.
    Version 2 adds the flag of a broker that still migrates from ZooKeeper.
    Version 3 adds the log directories.
    Version 4 adds the cordoned log directories, which take no new replicas.
    """

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid()  # Drawn anew at every start of the process.
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable="0+")
    fenced: bool = boolean(default=True)  # A fenced broker leads nothing and is shown to no client.
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "3+", tag=0, tagged="3+")
    cordoned_log_dirs: list[bytes] | None = array(uuid, "4+", nullable="4+", default=None, tag=1, tagged="4+")


class UnregisterBrokerRecord(Record, type=1, versions="0", flexible="0+"):
    """A broker has been removed from the cluster for good."""

    broker_id: int = int32()
    broker_epoch: int = int64()


class FenceBrokerRecord(Record, type=7, versions="0", flexible="0+"):
    """A broker is fenced: today's clusters write BrokerRegistrationChangeRecord instead."""

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Record, type=8, versions="0", flexible="0+"):
    """A broker is no longer fenced: today's clusters write BrokerRegistrationChangeRecord instead."""

    id: int = int32()
    epoch: int = int64()


class BrokerRegistrationChangeRecord(Record, type=17, versions="0-3", flexible="0+"):
    """What changed in a broker's registration while its epoch stays.

    Version 1 adds the controlled shutdown state.
    Version 2 adds the log directories.
    Version 3 adds the cordoned log directories.
    """

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0, tagged="0+")  # -1 is now unfenced, 0 as it was, 1 is now fenced.
    in_controlled_shutdown: int = int8("1+", tag=1, tagged="1+")  # 0 as it was, 1 is now shutting down.
    log_dirs: list[bytes] = array(uuid, "2+", tag=2, tagged="2+")  # Empty: as they were.
    cordoned_log_dirs: list[bytes] | None = array(uuid, "3+", nullable="3+", default=None, tag=3, tagged="3+")


class ControllerEndpoint(Struct):
    """Where one listener of a controller can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Struct):
    """The range of levels that a controller can run for one feature."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Record, type=27, versions="0", flexible="0+"):
    """A controller process has told where it listens and which feature levels it can run."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)


class ConfigRecord(Record, type=4, versions="0", flexible="0+"):
    """One configuration value of one resource."""

    resource_type: int = int8()  # 2 topic, 4 broker, 16 client metrics, 32 group.
    resource_name: str = string()  # Of a broker: its id, or empty for the default of all brokers.
    name: str = string()
    value: str | None = string(nullable="0+")  # Null removes it.


class FeatureLevelRecord(Record, type=12, versions="0", flexible="0+"):
    """The level at which the whole cluster now runs a feature; metadata.version is set at the very start of the log."""

    name: str = string()
    feature_level: int = int16()


class EntityData(Struct):
    """One part of the name of a quota's holder."""

    entity_type: str = string()  # user, client-id or ip.
    entity_name: str | None = string(nullable="0+")  # Null: the default for all that have no quota of their own.


class ClientQuotaRecord(Record, type=14, versions="0", flexible="0+"):
    """One quota of one user, client id, address, or pair of user and client id."""

    entity: list[EntityData] = array(EntityData)
    key: str = string()  # Such as producer_byte_rate.
    value: float = float64()
    remove: bool = boolean()


class ProducerIdsRecord(Record, type=15, versions="0", flexible="0+"):
    """A block of producer ids has been given to a broker, which alone may hand them out."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()  # The first id after the block.


class NoOpRecord(Record, type=20, versions="0", flexible="0+"):
    """Nothing: the controller writes one from time to time so that the log's offset shows that it is alive."""


class BeginTransactionRecord(Record, type=23, versions="0", flexible="0+"):
    """The records from here to the end or the abort count all or not at all, however many batches they fill."""

    name: str | None = string(nullable="0+", default=None, tag=0, tagged="0+")


class EndTransactionRecord(Record, type=24, versions="0", flexible="0+"):
    """The transaction of the metadata log counts."""


class AbortTransactionRecord(Record, type=25, versions="0", flexible="0+"):
    """The transaction of the metadata log doesn't count."""

    reason: str | None = string(nullable="0+", default=None, tag=0, tagged="0+")


class AccessControlEntryRecord(Record, type=18, versions="0", flexible="0+"):
    """An access control entry. The numbers are those of the ACL requests."""

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()  # With its type: User:alice.
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Record, type=19, versions="0", flexible="0+"):
    """An access control entry is gone."""

    id: bytes = uuid()


class UserScramCredentialRecord(Record, type=11, versions="0", flexible="0+"):
    """What a broker needs to check a user's SCRAM password; the password itself is nowhere."""

    name: str = string()
    mechanism: int = int8()  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    salt: bytes = bytes_()
    stored_key: bytes = bytes_()
    server_key: bytes = bytes_()
    iterations: int = int32()


class RemoveUserScramCredentialRecord(Record, type=22, versions="0", flexible="0+"):
    """A user can no longer log in with one SCRAM mechanism."""

    name: str = string()
    mechanism: int = int8()


class DelegationTokenRecord(Record, type=10, versions="0", flexible="0+"):
    """A delegation token, new or with another expiry. Its secret is derived from its id, so it isn't stored."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()  # No renewal goes beyond this.
    expiration_timestamp: int = int64()
    token_id: str = string()


class RemoveDelegationTokenRecord(Record, type=26, versions="0", flexible="0+"):
    """A delegation token has expired or was withdrawn."""

    token_id: str = string()


class ZkMigrationStateRecord(Record, type=21, versions="0", flexible="0+"):
    """How far a cluster has moved away from ZooKeeper; 0 says that it never was there."""

    zk_migration_state: int = int8()


# The records with more than one version: (from this metadata.version on, write this version), newest first.
_VERSIONS_BY_METADATA_VERSION: dict[type[Record], tuple[tuple[int, int], ...]] = {
    PartitionRecord: ((23, 2), (17, 1)),
    PartitionChangeRecord: ((23, 2), (17, 1)),
    RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (7, 1)),
    BrokerRegistrationChangeRecord: ((30, 3), (17, 2), (7, 1)),
}


def record_version(record_class: type[Record], metadata_version: int = METADATA_VERSION_LATEST) -> int:
    """The version in which a record is written while the cluster runs at `metadata_version`."""
    for since, version in _VERSIONS_BY_METADATA_VERSION.get(record_class, ()):
        if metadata_version >= since:
            return version
    return 0
