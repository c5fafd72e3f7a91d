"""What the tests of the store share: batches, configurations, logs on a disk in memory."""

from __future__ import annotations

import errno
from collections.abc import Callable

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig, LogConfigs
from kafkapy.log.files import FilePool
from kafkapy.log.filesystem import Filesystem
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.types import TopicPartition
from kafkapy.wire.record_batch import BatchHeader, iterate_batches
from kafkapy.wire.records import BatchBuilder, Record, read_records

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
NAME = TopicPartition("orders", 0)
FOLDER = "/data/orders-0"
CONFIGS = LogConfigs(BrokerConfig({}))


def config(**settings: object) -> LogConfig:
    """A topic's configuration; segment_bytes may be smaller than a user could set it."""
    names = {name.replace("_", "."): str(value) for name, value in settings.items()}
    if "segment.bytes" in names:
        names["internal.segment.bytes"] = names.pop("segment.bytes")
    return CONFIGS.of(names)


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    size: int = 20,
    key: bytes | None = b"key",
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    codec: int = 0,
) -> bytearray:
    """A batch as a client sends it; `producer` is (id, epoch, sequence). Timestamps rise by one per record."""
    producer_id, epoch, sequence = producer
    builder = BatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    for index in range(count):
        builder.append(timestamp + index, key, b"%d" % index * size)
    return builder.build()


def open_log(
    fs: Filesystem | None = None,
    *,
    folder: str = FOLDER,
    settings: LogConfig | None = None,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = True,
    now_ms: int = NOW_MS,
    open_files: int = 16,
    topic_id: bytes = TOPIC_ID,
) -> Log:
    """A log, by default on a fresh disk in memory."""
    return Log.open(
        folder,
        settings or config(),
        topic_partition=NAME,
        topic_id=topic_id,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean=clean,
        now_ms=now_ms,
        pool=FilePool(fs if fs is not None else MemoryFilesystem(), open_files),
    )


def append(log: Log, records: bytes | bytearray, *, epoch: int = 0, now_ms: int = NOW_MS) -> int:
    """Append as a client's leader does; the first offset."""
    return log.append_as_leader(records, leader_epoch=epoch, now_ms=now_ms).first_offset


def headers(data: bytes) -> list[BatchHeader]:
    """The headers of whole batches; nothing may follow the last."""
    found = [header for _, header in iterate_batches(data)]
    assert sum(header.size for header in found) == len(data), "a slice must end with a batch"
    return found


def read_all(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> bytes:
    """All bytes from an offset to the end, fetched one slice after another."""
    offset = log.log_start_offset if offset is None else offset
    data = b""
    while offset < log.log_end_offset:
        found = log.read(offset, max_bytes)
        if not found.size:
            break
        piece = found.read_bytes()
        assert headers(piece)[-1].last_offset >= offset
        offset = found.end_offset
        data += piece
    return data


def records_of(data: bytes) -> list[Record]:
    """All records of whole batches."""
    return [record for position, header in iterate_batches(data) for record in read_records(data, position, header)]


def offsets_of(data: bytes) -> list[int]:
    """The offsets of all records."""
    return [record.offset for record in records_of(data)]


def killed_at(step: int) -> Callable[[str, str], OSError | None]:
    """A fault for a disk in memory: from that step on nothing that changes the disk happens any more."""
    done = 0

    def fault(operation: str, path: str) -> OSError | None:
        nonlocal done
        if operation in ("pread", "list"):
            return None
        done += 1
        return OSError(errno.EIO, "killed") if done >= step else None

    return fault
