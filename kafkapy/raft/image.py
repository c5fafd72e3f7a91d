"""The cluster as the metadata log tells it: one immutable object, the same on every node that has read as far.

Everything that serves clients reads it, nothing changes it: `delta.py` replays records on top of an image and makes the next one, which shares what
didn't change. So an image can be kept for as long as an answer takes, and compared with another one.

`image_records` is the way back: the records that rebuild the image, which is what a snapshot is made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkapy.raft.persistent_map import PersistentMap
from kafkapy.types import ZERO_UUID

METADATA_VERSION = "metadata.version"

# Resources that have configuration, with the numbers of the protocol.
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

NO_LEADER = -1

# A replica whose broker hasn't said in which of its log directories it is; one in a directory that has failed; one that was there before
# directories were told.
DIRECTORY_UNASSIGNED = bytes(15) + b"\x01"
DIRECTORY_LOST = bytes(15) + b"\x02"
DIRECTORY_MIGRATING = ZERO_UUID
# No directory has one of these for its id.
RESERVED_DIRECTORIES = frozenset(bytes(15) + bytes((last,)) for last in range(100))


class ConfigResource(NamedTuple):
    """Whose configuration: a topic, a broker by id ("" for the default of all), a group, a client metrics subscription."""

    type: int
    name: str


class PartitionImage(NamedTuple):
    """The state of a partition. Its number is its place in the topic."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    directories: tuple[bytes, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class TopicImage(NamedTuple):
    """A topic with its partitions in order."""

    name: str
    id: bytes
    partitions: tuple[PartitionImage, ...]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics by name, the names by id, and those names that others might collide with by what they'd have in common."""

    by_name: PersistentMap[str, TopicImage] = field(default_factory=PersistentMap)
    names_by_id: PersistentMap[bytes, str] = field(default_factory=PersistentMap)
    collisions: PersistentMap[str, frozenset[str]] = field(default_factory=PersistentMap)

    def get(self, name: str) -> TopicImage | None:
        """The topic of this name."""
        return self.by_name.get(name)

    def get_by_id(self, topic_id: bytes) -> TopicImage | None:
        """The topic of this id."""
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.by_name[name]

    def partition(self, name: str, number: int) -> PartitionImage | None:
        """A partition, if there is such a topic and it has that many."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    def __len__(self) -> int:
        return len(self.by_name)


class Listener(NamedTuple):
    """Where one listener of a broker or controller can be reached."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    """The levels of a feature that a node can run."""

    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker, as it registered itself the last time."""

    id: int
    epoch: int
    incarnation_id: bytes
    listeners: tuple[Listener, ...] = ()
    features: dict[str, FeatureRange] = field(default_factory=dict)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions and is shown to clients."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def default_directory(self) -> bytes:
        """Where a new replica goes, if there is but one place."""
        return self.log_dirs[0] if len(self.log_dirs) == 1 else DIRECTORY_UNASSIGNED

    def listener(self, name: str) -> Listener | None:
        """Its address on the listener of this name."""
        return next((listener for listener in self.listeners if listener.name == name), None)


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A controller, as it registered itself the last time."""

    id: int
    incarnation_id: bytes
    listeners: tuple[Listener, ...] = ()
    features: dict[str, FeatureRange] = field(default_factory=dict)
    zk_migration_ready: bool = False


class ScramCredential(NamedTuple):
    """What is needed to check a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class AccessControlEntry(NamedTuple):
    """One rule of the authorizer, with the numbers of the ACL requests."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DelegationToken(NamedTuple):
    """A token and how long it lives."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster up to and including `offset`."""

    cluster_id: str
    offset: int = -1
    epoch: int = 0
    timestamp_ms: int = 0
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: PersistentMap[ConfigResource, dict[str, str]] = field(default_factory=PersistentMap)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    controllers: dict[int, ControllerRegistration] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    client_quotas: PersistentMap[QuotaEntity, dict[str, float]] = field(default_factory=PersistentMap)
    scram_credentials: PersistentMap[tuple[str, int], ScramCredential] = field(default_factory=PersistentMap)
    acls: PersistentMap[bytes, AccessControlEntry] = field(default_factory=PersistentMap)
    delegation_tokens: PersistentMap[str, DelegationToken] = field(default_factory=PersistentMap)

    @property
    def next_offset(self) -> int:
        """Where the next record of the metadata log goes."""
        return self.offset + 1

    @property
    def metadata_version(self) -> int:
        """Which versions of records may be written; 0 before the cluster has been bootstrapped."""
        return self.features.get(METADATA_VERSION, 0)

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """What has been set for a resource, key by key; not to be changed."""
        return self.configs.get(ConfigResource(resource_type, name), _NO_CONFIG)

    def active_brokers(self) -> list[BrokerRegistration]:
        """The brokers that clients may be sent to, by id."""
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.brokers[broker_id].is_active]


_NO_CONFIG: dict[str, str] = {}
