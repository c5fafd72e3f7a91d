"""Every configuration key of a topic, and the broker's keys from which a topic without its own value takes it."""

from __future__ import annotations

from kafkapy.config.broker.storage import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    GZIP_LEVEL,
    LZ4_LEVEL,
    TIMESTAMP_TYPE,
    ZSTD_LEVEL,
)
from kafkapy.config.definitions import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    ConfigKey,
    ConfigType,
    UpdateMode,
    Value,
    by_name,
)
from kafkapy.config.validators import Rule, Validator, at_least, between


def _throttled_replicas_reason(name: str, value: tuple[str, ...]) -> str | None:
    """Either the star for all replicas, or pairs of partition and broker; anything else has a reason to be refused."""
    if value == ("*",) or all(
        len(pair) == 2 and all(number.isascii() and number.isdecimal() for number in pair)
        for pair in (item.split(":") for item in value)
    ):
        return None
    return (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


_THROTTLED_REPLICAS = Rule("[partitionId]:[brokerId],[partitionId]:[brokerId],...", _throttled_replicas_reason)


def _key(
    name: str,
    kind: ConfigType,
    default: Value,
    documentation: str,
    validator: Validator | None = None,
    honoured: bool = True,
    internal: bool = False,
) -> ConfigKey:
    """A topic's key: all of them may change while the broker runs."""
    return ConfigKey(
        name, kind, default, UpdateMode.CLUSTER_WIDE, documentation, validator, honoured=honoured, internal=internal
    )


RETENTION_KEYS = (
    _key("cleanup.policy", LIST, ("delete",), "Whether old segments are deleted, compacted, or both.", CLEANUP_POLICY),
    _key("retention.ms", LONG, 604800000, "Segments older than this are deleted; -1 keeps them.", at_least(-1)),
    _key("retention.bytes", LONG, -1, "A partition larger than this loses its oldest segments; -1 is no limit."),
    _key(
        "delete.retention.ms",
        LONG,
        86400000,
        "How long a tombstone survives compaction, so that slow readers see it.",
        at_least(0),
        honoured=True,
    ),
    _key(
        "min.compaction.lag.ms",
        LONG,
        0,
        "A record younger than this is never compacted away.",
        at_least(0),
        honoured=True,
    ),
    _key(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "A record older than this makes its log due for compaction, whatever the ratio.",
        at_least(1),
        honoured=True,
    ),
    _key(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "The share of uncompacted bytes at which the log is worth compacting.",
        between(0, 1),
        honoured=True,
    ),
    _key(
        "file.delete.delay.ms",
        LONG,
        60000,
        "How long a segment's files stay on disk after the log has let go of them.",
        at_least(0),
    ),
)

SEGMENT_KEYS = (
    _key(
        "segment.bytes",
        INT,
        1073741824,
        "A segment file that would grow beyond this is followed by a new one.",
        at_least(1048576),
    ),
    _key(
        "segment.ms",
        LONG,
        604800000,
        "A segment whose first record is this old is followed by a new one.",
        at_least(1),
    ),
    _key(
        "segment.jitter.ms",
        LONG,
        0,
        "Up to this much is taken off segment.ms at random, so that not all logs roll at once.",
        at_least(0),
    ),
    _key(
        "segment.index.bytes",
        INT,
        10485760,
        "The largest index of a segment; a full one makes the log roll.",
        at_least(4),
    ),
    _key("index.interval.bytes", INT, 4096, "How many bytes of log lie between two entries of an index.", at_least(0)),
    _key("preallocate", BOOLEAN, False, "Whether a new segment file gets its full size at once."),
    _key("flush.messages", LONG, LONG_MAX, "After this many records the log is forced to disk.", at_least(1)),
    _key("flush.ms", LONG, LONG_MAX, "The longest that a record stays in memory only.", at_least(0)),
    _key(
        "internal.segment.bytes",
        INT,
        None,
        "A segment size for tests, free of the lower bound of segment.bytes.",
        internal=True,
    ),
)

RECORD_KEYS = (
    _key(
        "max.message.bytes",
        INT,
        1048588,
        "The largest record batch that is accepted, as it is compressed.",
        at_least(0),
    ),
    _key(
        "compression.type",
        STRING,
        "producer",
        "How batches are stored: as the producer sent them, or recompressed.",
        COMPRESSION_TYPE,
    ),
    _key("compression.gzip.level", INT, -1, "The level when the broker compresses with gzip.", GZIP_LEVEL),
    _key("compression.lz4.level", INT, 9, "The level when the broker compresses with lz4.", LZ4_LEVEL),
    _key("compression.zstd.level", INT, 3, "The level when the broker compresses with zstd.", ZSTD_LEVEL),
    _key(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whose clock stamps a record: the producer's or the broker's.",
        TIMESTAMP_TYPE,
    ),
    _key(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a producer's timestamp may lie behind the broker's clock.",
        at_least(0),
    ),
    _key(
        "message.timestamp.after.max.ms",
        LONG,
        3600000,
        "How far a producer's timestamp may lie ahead of the broker's clock.",
        at_least(0),
    ),
)

REPLICA_KEYS = (
    _key(
        "min.insync.replicas",
        INT,
        1,
        "How many replicas must be in sync for a write with acks=all to be accepted.",
        at_least(1),
    ),
    _key(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may lead when no other can, losing records.",
    ),
    _key(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "Replicas whose leader keeps to leader.replication.throttled.rate.",
        _THROTTLED_REPLICAS,
        honoured=True,
    ),
    _key(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "Replicas that keep to follower.replication.throttled.rate.",
        _THROTTLED_REPLICAS,
        honoured=True,
    ),
)

TIERED_KEYS = (
    _key("remote.storage.enable", BOOLEAN, False, "Whether old segments move to the remote tier.", honoured=False),
    _key("remote.log.copy.disable", BOOLEAN, False, "Whether the remote tier takes nothing new.", honoured=False),
    _key(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "Whether turning the remote tier off deletes what is in it.",
        honoured=False,
    ),
    _key(
        "local.retention.bytes",
        LONG,
        -2,
        "How much of a tiered partition stays on this disk; -2 is as retention.bytes.",
        at_least(-2),
        honoured=False,
    ),
    _key(
        "local.retention.ms",
        LONG,
        -2,
        "How long segments of a tiered partition stay on this disk; -2 is as retention.ms.",
        at_least(-2),
        honoured=False,
    ),
)

TOPIC_KEYS: dict[str, ConfigKey] = by_name(RETENTION_KEYS, SEGMENT_KEYS, RECORD_KEYS, REPLICA_KEYS, TIERED_KEYS)

# Where a topic without a value of its own takes it from: the broker's keys, the first that is set, with what one unit
# of it is worth in the topic's own.
MS_PER_MINUTE = 60 * 1000
MS_PER_HOUR = 60 * MS_PER_MINUTE

BROKER_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", MS_PER_MINUTE),
        ("log.retention.hours", MS_PER_HOUR),
    ),
    "retention.bytes": (("log.retention.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", MS_PER_HOUR)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", MS_PER_HOUR)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "preallocate": (("log.preallocate", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "max.message.bytes": (("message.max.bytes", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
}
