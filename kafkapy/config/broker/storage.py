"""Keys of the log: where it lies, how it rolls, flushes, expires and is compacted, and what a record may be."""

from __future__ import annotations

from kafkapy.config.definitions import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PER_BROKER,
    READ_ONLY,
    STRING,
    ConfigKey,
)
from kafkapy.config.validators import ListOf, OneOf, Rule, at_least, between


def gzip_level_reason(name: str, value: int | None) -> str | None:
    """zlib's levels, or -1 for its own choice."""
    if value is not None and (value == -1 or 1 <= value <= 9):
        return None
    return "Value must be between 1 and 9 or equal to -1"


GZIP_LEVEL = Rule("[1,...,9] or -1", gzip_level_reason)
LZ4_LEVEL = between(1, 17)
ZSTD_LEVEL = between(-131072, 22)
COMPRESSION_TYPE = OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPE = OneOf("CreateTime", "LogAppendTime")
CLEANUP_POLICY = ListOf("compact", "delete", empty=True)

DIRECTORY_KEYS = (
    ConfigKey(
        "log.dir",
        LIST,
        ("/tmp/kafka-logs",),
        READ_ONLY,
        "The folder that holds the data, if log.dirs does not say otherwise.",
        ListOf(),
        honoured=True,
    ),
    ConfigKey("log.dirs", LIST, None, READ_ONLY, "The folders that hold the data.", ListOf(null=True), honoured=True),
    ConfigKey(
        "cordoned.log.dirs",
        LIST,
        (),
        PER_BROKER,
        "Folders in which no new replica is placed.",
        ListOf(empty=True, null=True),
    ),
    ConfigKey(
        "log.dir.failure.timeout.ms",
        LONG,
        30000,
        READ_ONLY,
        "How long a failed folder may stay unreported before the broker stops.",
        at_least(1),
    ),
    ConfigKey(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        CLUSTER_WIDE,
        "Threads per folder that check logs after a crash.",
        at_least(1),
        honoured=True,
    ),
    ConfigKey(
        "log.initial.task.delay.ms",
        LONG,
        30000,
        READ_ONLY,
        "How long after the start the first retention and flush passes run.",
        at_least(0),
        internal=True,
    ),
)

SEGMENT_KEYS = (
    ConfigKey(
        "log.segment.bytes",
        INT,
        1073741824,
        CLUSTER_WIDE,
        "A segment file that would grow beyond this is followed by a new one.",
        at_least(1048576),
        honoured=True,
    ),
    ConfigKey(
        "log.roll.ms",
        LONG,
        None,
        CLUSTER_WIDE,
        "A segment whose first record is this old is followed by a new one; goes before log.roll.hours.",
        honoured=True,
    ),
    ConfigKey("log.roll.hours", INT, 168, READ_ONLY, "The same as log.roll.ms, in hours.", at_least(1), honoured=True),
    ConfigKey(
        "log.roll.jitter.ms",
        LONG,
        None,
        CLUSTER_WIDE,
        "Up to this much is taken off log.roll.ms at random, so that not all logs roll at once.",
        honoured=True,
    ),
    ConfigKey(
        "log.roll.jitter.hours",
        INT,
        0,
        READ_ONLY,
        "The same as log.roll.jitter.ms, in hours.",
        at_least(0),
        honoured=True,
    ),
    ConfigKey(
        "log.index.size.max.bytes",
        INT,
        10485760,
        CLUSTER_WIDE,
        "The largest index of a segment; a full one makes the log roll.",
        at_least(4),
        honoured=True,
    ),
    ConfigKey(
        "log.index.interval.bytes",
        INT,
        4096,
        CLUSTER_WIDE,
        "How many bytes of log lie between two entries of an index.",
        at_least(0),
        honoured=True,
    ),
    ConfigKey(
        "log.preallocate",
        BOOLEAN,
        False,
        CLUSTER_WIDE,
        "Whether a new segment file gets its full size at once.",
        honoured=True,
    ),
    ConfigKey(
        "log.segment.delete.delay.ms",
        LONG,
        60000,
        CLUSTER_WIDE,
        "How long a segment's files stay on disk after the log has let go of them.",
        at_least(0),
        honoured=True,
    ),
)

FLUSH_KEYS = (
    ConfigKey(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        CLUSTER_WIDE,
        "After this many records a log is forced to disk.",
        at_least(1),
        honoured=True,
    ),
    ConfigKey(
        "log.flush.interval.ms",
        LONG,
        None,
        CLUSTER_WIDE,
        "The longest that a record stays in memory only; without it, log.flush.scheduler.interval.ms.",
        honoured=True,
    ),
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        READ_ONLY,
        "How often the broker looks for logs that must be forced to disk.",
        honoured=True,
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60000,
        READ_ONLY,
        "How often the recovery points are written down.",
        at_least(0),
        honoured=True,
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60000,
        READ_ONLY,
        "How often the first offsets of the logs are written down.",
        at_least(0),
    ),
)

RETENTION_KEYS = (
    ConfigKey(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        CLUSTER_WIDE,
        "Whether old segments are deleted, compacted, or both.",
        CLEANUP_POLICY,
        honoured=True,
    ),
    ConfigKey(
        "log.retention.bytes",
        LONG,
        -1,
        CLUSTER_WIDE,
        "A partition larger than this loses its oldest segments; -1 is no limit.",
        honoured=True,
    ),
    ConfigKey(
        "log.retention.ms",
        LONG,
        None,
        CLUSTER_WIDE,
        "Segments older than this are deleted; -1 keeps them; goes before the minutes and the hours.",
        honoured=True,
    ),
    ConfigKey(
        "log.retention.minutes",
        INT,
        None,
        READ_ONLY,
        "The same as log.retention.ms, in minutes; goes before the hours.",
        honoured=True,
    ),
    ConfigKey("log.retention.hours", INT, 168, READ_ONLY, "The same as log.retention.ms, in hours.", honoured=True),
    ConfigKey(
        "log.retention.check.interval.ms",
        LONG,
        300000,
        READ_ONLY,
        "How often the broker looks for segments to delete.",
        at_least(1),
        honoured=True,
    ),
    ConfigKey(
        "log.local.retention.bytes",
        LONG,
        -2,
        CLUSTER_WIDE,
        "How much of a tiered partition stays on this disk; -2 is as log.retention.bytes.",
        at_least(-2),
    ),
    ConfigKey(
        "log.local.retention.ms",
        LONG,
        -2,
        CLUSTER_WIDE,
        "How long segments of a tiered partition stay on this disk; -2 is as log.retention.ms.",
        at_least(-2),
    ),
)

CLEANER_KEYS = (
    ConfigKey("log.cleaner.enable", BOOLEAN, True, READ_ONLY, "Whether logs are compacted at all."),
    ConfigKey(
        "log.cleaner.threads",
        INT,
        1,
        CLUSTER_WIDE,
        "How many logs are compacted at a time.",
        at_least(0),
    ),
    ConfigKey(
        "log.cleaner.backoff.ms",
        LONG,
        15000,
        CLUSTER_WIDE,
        "How long the cleaner sleeps when there is nothing to compact.",
        at_least(0),
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134217728,
        CLUSTER_WIDE,
        "Memory for the table of keys of a compaction, all cleaners together.",
    ),
    ConfigKey(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        CLUSTER_WIDE,
        "How full the cleaner's table of keys may get.",
    ),
    ConfigKey(
        "log.cleaner.io.buffer.size",
        INT,
        524288,
        CLUSTER_WIDE,
        "Size of the cleaner's read and write buffers.",
        at_least(0),
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        DOUBLE_MAX,
        CLUSTER_WIDE,
        "How many bytes per second the cleaner may read and write.",
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        LONG,
        86400000,
        CLUSTER_WIDE,
        "How long a tombstone survives compaction, so that slow readers see it.",
        at_least(0),
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        CLUSTER_WIDE,
        "The share of uncompacted bytes at which a log is worth compacting.",
        between(0, 1),
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        CLUSTER_WIDE,
        "A record younger than this is never compacted away.",
        at_least(0),
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        CLUSTER_WIDE,
        "A record older than this makes its log due for compaction, whatever the ratio.",
        at_least(1),
    ),
)

RECORD_KEYS = (
    ConfigKey(
        "message.max.bytes",
        INT,
        1048588,
        CLUSTER_WIDE,
        "The largest record batch that is accepted, as it is compressed.",
        at_least(0),
        honoured=True,
    ),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        CLUSTER_WIDE,
        "How batches are stored: as the producer sent them, or recompressed.",
        COMPRESSION_TYPE,
        honoured=True,
    ),
    ConfigKey(
        "compression.gzip.level",
        INT,
        -1,
        CLUSTER_WIDE,
        "The level when the broker compresses with gzip.",
        GZIP_LEVEL,
        honoured=True,
    ),
    ConfigKey(
        "compression.lz4.level",
        INT,
        9,
        CLUSTER_WIDE,
        "The level when the broker compresses with lz4.",
        LZ4_LEVEL,
        honoured=True,
    ),
    ConfigKey(
        "compression.zstd.level",
        INT,
        3,
        CLUSTER_WIDE,
        "The level when the broker compresses with zstd.",
        ZSTD_LEVEL,
        honoured=True,
    ),
    ConfigKey(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        CLUSTER_WIDE,
        "Whose clock stamps a record: the producer's or the broker's.",
        TIMESTAMP_TYPE,
        honoured=True,
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        CLUSTER_WIDE,
        "How far a producer's timestamp may lie behind the broker's clock.",
        at_least(0),
        honoured=True,
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        LONG,
        3600000,
        CLUSTER_WIDE,
        "How far a producer's timestamp may lie ahead of the broker's clock.",
        at_least(0),
        honoured=True,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        INT,
        86400000,
        CLUSTER_WIDE,
        "A partition forgets an idempotent producer that has been silent for this long.",
        at_least(1),
        honoured=True,
    ),
    ConfigKey(
        "producer.id.expiration.check.interval.ms",
        INT,
        600000,
        READ_ONLY,
        "How often silent producers are looked for.",
        at_least(1),
        internal=True,
    ),
)

KEYS = DIRECTORY_KEYS + SEGMENT_KEYS + FLUSH_KEYS + RETENTION_KEYS + CLEANER_KEYS + RECORD_KEYS
