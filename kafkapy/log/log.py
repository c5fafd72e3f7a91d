"""One partition's log: a list of segments, of which the last one grows.

    append   check the batch header and the producer, patch base offset and leader epoch in place, one write to the active segment
    read     find the segment, then the position: remembered from the last read, or by the index and a short walk over headers
    roll     the active segment's indexes go to disk, the producers are snapshotted, a new file begins at the log's end

Kill -9 between any two steps of a roll is harmless: an index that is missing is rebuilt, a snapshot at the log's end is as good as any,
and the new file is empty. What was acknowledged is in the page cache after the one write, so only the machine's death can lose it;
`flush` bounds that.

Theory of the offsets: log start <= log end, recovery point <= log end; what lies between recovery point and end is not flushed. Reads are
answered from log start to log end; the partition above decides how far a consumer may see.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.log import follower_append, recovery, retention, time_lookup, truncation
from kafkapy.log.append_info import AppendInfo, AppendOrigin
from kafkapy.log.batch_rewrite import checked_own_batch, rewritten
from kafkapy.log.epochs import LeaderEpochs
from kafkapy.log.files import EMPTY, FilePool, FileSlice
from kafkapy.log.filesystem import DiskFullError, storage_errors
from kafkapy.log.flush import FlushWork
from kafkapy.log.producer_replay import read_marker, replay
from kafkapy.log.producer_snapshot import write_snapshot
from kafkapy.log.producer_state import SEQUENCE_MAX, ProducedBatch, ProducerTable
from kafkapy.log.segment import SNAPSHOT_SUFFIX, Segment, segment_path
from kafkapy.log.sparse_index import RELATIVE_OFFSET_MAX
from kafkapy.log.time_lookup import TimestampOffset
from kafkapy.log.txn_index import AbortedTxn
from kafkapy.types import ZERO_UUID, TopicPartition
from kafkapy.wire.record_batch import (
    CONTROL,
    LENGTH_END,
    TRANSACTIONAL,
    BatchHeader,
    ProduceRules,
    assign_offsets,
    read_header,
    validate_produced,
)

if TYPE_CHECKING:
    from kafkapy.config.log_config import LogConfig

logger = logging.getLogger(__name__)

_CLIENT = AppendOrigin.CLIENT
_PRODUCE_VERSION_LATEST = 13
_CODECS = {"uncompressed": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_base_offset = attrgetter("base_offset")
_new = tuple.__new__  # Makes a named tuple in a third of the time, for the one place where that counts.


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers shows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class Log:
    """The log of one partition in its folder. All methods belong to the loop's thread."""

    __slots__ = (
        "_rewrite_codec",
        "_rewrites",
        "_roll_ms",
        "_rules",
        "_segment_bytes",
        "active",
        "config",
        "epochs",
        "failure",
        "folder",
        "last_flush_ms",
        "last_snapshot_offset",
        "log_end_offset",
        "log_start_offset",
        "pool",
        "producers",
        "recovery_point",
        "segments",
        "snapshot_synced",
        "topic_id",
        "topic_partition",
        "truncations",
    )

    def __init__(
        self, folder: str, config: LogConfig, topic_partition: TopicPartition, pool: FilePool, now_ms: int
    ) -> None:
        """Only for `open`: a log has at least one segment once it is loaded."""
        self.folder = folder
        self.topic_partition = topic_partition
        self.topic_id = ZERO_UUID
        self.pool = pool
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.last_flush_ms = now_ms
        self.segments: list[Segment] = []
        self.active: Segment
        self.epochs = LeaderEpochs()
        self.producers = ProducerTable()
        # Set when the disk failed in a way that leaves doubt about what it holds: nothing is acknowledged from then on.
        self.failure: StorageError | None = None
        self.truncations = 0  # So that a flush in flight notices one.
        self.last_snapshot_offset = -1
        self.snapshot_synced = False
        self.update_config(config)

    @classmethod
    def open(
        cls,
        folder: str,
        config: LogConfig,
        *,
        topic_partition: TopicPartition,
        topic_id: bytes,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool = True,
        now_ms: int,
        pool: FilePool | None = None,
        producer_id_expiration_ms: int = 86_400_000,
    ) -> Log:
        """The log in a folder, which is made when it is missing.

        `clean` says that the last stop was clean; otherwise everything from `recovery_point` on is checked batch by batch. Raises
        StorageError, with file and position, for damage before that point, and KafkaError(INCONSISTENT_TOPIC_ID) when the folder
        belongs to an earlier topic of this name.
        """
        log = cls(folder, config, topic_partition, pool if pool is not None else FilePool(), now_ms)
        recovery.load(log, topic_id, recovery_point, log_start_offset, clean, now_ms, producer_id_expiration_ms)
        return log

    def update_config(self, config: LogConfig) -> None:
        """Take on a changed configuration; the next append follows it."""
        self.config = config
        log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._rules = ProduceRules(
            max_message_bytes=config.max_message_bytes,
            compacted="compact" in config.cleanup_policy,
            log_append_time=log_append_time,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
        )
        self._rewrite_codec = _CODECS.get(config.compression_type, -1)  # -1: "producer", batches keep theirs
        self._rewrites = log_append_time or self._rewrite_codec >= 0
        self._segment_bytes = config.segment_bytes
        # Kafka takes a random part off; a part that depends on the name spreads the rolls just as well.
        jitter_max_ms = min(config.segment_jitter_ms, config.segment_ms)
        jitter_ms = crc32(str(self.topic_partition).encode()) % jitter_max_ms if jitter_max_ms else 0
        self._roll_ms = config.segment_ms - jitter_ms
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes
            segment.index_bytes_max = config.segment_index_bytes

    # Appending.

    def append_as_leader(
        self,
        records: memoryview | bytes | bytearray,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = _CLIENT,
        produce_version: int = _PRODUCE_VERSION_LATEST,
        transaction_verified: bool = True,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append one batch at the log's end. `records` is written as it is, patched in place where the memory allows it.

        `transaction_verified`: the transaction coordinator knows that the producer's transaction includes this partition; asked
        only for the first batch of a transaction. `transaction_version` is that of a marker's writer (WriteTxnMarkers v2).
        Raises KafkaError for what is refused, and StorageError when the disk fails; then nothing was appended.
        """
        if self.failure is not None:
            raise self.failure
        if origin is _CLIENT:
            header = validate_produced(records, self._rules, now_ms, produce_version)
        else:
            header = checked_own_batch(records)
        _, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, _ = header
        size = length + LENGTH_END
        if producer_id >= 0:
            if attributes & CONTROL:
                self._check_marker(records, header, transaction_version)
            else:
                # What an ordinary batch of a known producer meets; everything else is decided in one place.
                state = self.producers.states.get(producer_id)
                if (
                    state is None
                    or state.epoch != epoch
                    or state.next_sequence != sequence
                    or (state.txn_first_offset >= 0) != bool(attributes & TRANSACTIONAL)
                ):
                    duplicate = self._check_producer(header, origin, transaction_verified)
                    if duplicate is not None:
                        return self._duplicate_info(duplicate, size)
        if type(records) is not memoryview or records.readonly:
            records = memoryview(bytearray(records))
        append_time_ms = -1
        if self._rewrites and not attributes & CONTROL:
            records, max_timestamp, append_time_ms = rewritten(
                records, header, self.config, self._rewrite_codec, now_ms
            )
            header = read_header(records)
            size = header.batch_length + LENGTH_END
        if len(records) != size:
            records = records[:size]
        first_offset = self.log_end_offset
        last_offset = first_offset + delta
        assign_offsets(records, 0, header, first_offset, leader_epoch)
        self._write(records, size, first_offset, last_offset, max_timestamp, leader_epoch, now_ms)
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            if attributes & CONTROL:
                self.replay_producer(records, read_header(records))
            else:
                last_sequence = (sequence + delta) & SEQUENCE_MAX if sequence >= 0 else -1
                batch = _new(ProducedBatch, (sequence, last_sequence, first_offset, last_offset, max_timestamp))
                self.producers.add_batch(producer_id, epoch, batch, bool(attributes & TRANSACTIONAL))
        return _new(
            AppendInfo, (first_offset, last_offset, append_time_ms, self.log_start_offset, max_timestamp, size, False)
        )

    def append_as_follower(
        self, records: memoryview | bytes | bytearray, *, now_ms: int, leader_epoch: int | None = None
    ) -> AppendInfo:
        """Append whole batches that carry their offsets and epochs, as fetched from the leader: see follower_append.py."""
        return follower_append.append_as_follower(self, records, now_ms, leader_epoch)

    def _write(
        self,
        batch: memoryview,
        size: int,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """One write at the end of the active segment, after a roll where one is due."""
        active = self.active_for(size, first_offset, last_offset, max_timestamp, leader_epoch, now_ms)
        try:
            active.append(batch, size, last_offset, max_timestamp)
        except StorageError as error:
            self.append_failed(error)
            raise

    def append_failed(self, error: StorageError) -> None:
        """A full disk refuses this append; any other failure leaves doubt about what the log holds."""
        if not isinstance(error, DiskFullError):
            self.failure = error

    def active_for(
        self, size: int, first_offset: int, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> Segment:
        """The segment that takes the next write: a new one where that is due. The epoch's beginning is noted."""
        active = self.active
        if (
            size > self._segment_bytes - active.size
            or max_timestamp - active.first_timestamp > self._roll_ms  # type: ignore[operator]
            or active.full
            or max_timestamp < 0
            or last_offset - active.base_offset > RELATIVE_OFFSET_MAX
        ):
            self._roll_if_due(size, first_offset, last_offset, max_timestamp, now_ms)
            active = self.active
        if leader_epoch != self.epochs.latest_epoch and leader_epoch >= 0:
            self.epochs.assign(leader_epoch, first_offset)
        return active

    def _check_producer(self, header: BatchHeader, origin: AppendOrigin, verified: bool) -> ProducedBatch | None:
        """Decide on the batch of an idempotent producer; the batch that it repeats, if it is a duplicate."""
        transactional = bool(header.attributes & TRANSACTIONAL)
        producer_id, epoch = header.producer_id, header.producer_epoch
        if origin is _CLIENT:
            return self.producers.check_produced(
                producer_id, epoch, header.base_sequence, header.last_sequence, transactional, verified
            )
        self.producers.check_coordinated(producer_id, epoch, transactional, verified)
        return None

    def _check_marker(self, records: memoryview | bytes | bytearray, header: BatchHeader, version: int) -> None:
        """Refuse a transaction marker that comes too late."""
        marker = read_marker(records, header)
        if marker is not None:
            self.producers.check_marker(header.producer_id, header.producer_epoch, marker, version)

    def replay_producer(self, batch: memoryview | bytes, header: BatchHeader) -> None:
        """Let the producers follow a batch that is in the log now."""
        try:
            replay(self.producers, self.active, batch, header)
        except StorageError as error:
            # The marker is in the log and its index entry is not: only a restart, which finds both again, may go on.
            self.failure = error
            raise

    def _duplicate_info(self, batch: ProducedBatch, size: int) -> AppendInfo:
        return AppendInfo(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp,
            self.log_start_offset,
            batch.timestamp,
            size,
            True,
        )

    # Rolling.

    def _roll_if_due(self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Decide properly what the append's quick look found suspicious."""
        if size > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes; a segment holds {self._segment_bytes} (segment.bytes)",
            )
        active = self.active
        timestamp = max_timestamp if max_timestamp >= 0 else now_ms
        if (
            size > self._segment_bytes - active.size
            or timestamp - active.first_batch_timestamp() > self._roll_ms
            or active.full
            or last_offset - active.base_offset > RELATIVE_OFFSET_MAX
        ):
            self.roll(now_ms, first_offset)

    def roll(self, now_ms: int, next_offset: int | None = None) -> None:
        """Finish the active segment and begin a new one at the log's end, or further on where a follower's log has a gap."""
        offset = self.log_end_offset if next_offset is None else next_offset
        active = self.active
        if not active.size and active.base_offset == offset:
            return
        with storage_errors(self.folder):
            if self.config.preallocate:
                self.pool.fs.truncate(active.file.descriptor(), active.size)
            active.save_indexes()
            self.take_snapshot()
            self.add_segment(offset, now_ms)
        # Only now: a step that fails on a full disk is repeated by the next append.
        active.unload_indexes()

    def take_snapshot(self, *, sync: bool = False) -> None:
        """Write the producers' state at the log's end, unless it was written."""
        offset = self.log_end_offset
        if offset != self.last_snapshot_offset or (sync and not self.snapshot_synced):
            path = segment_path(self.folder, offset, SNAPSHOT_SUFFIX)
            write_snapshot(self.pool.fs, path, self.producers.states, sync=sync)
            self.last_snapshot_offset = offset
            self.snapshot_synced = sync

    def snapshot_offsets(self) -> list[int]:
        """The offsets of all snapshots on disk, rising."""
        with storage_errors(self.folder):
            names = [entry.name for entry in self.pool.fs.list(self.folder)]
        return sorted(int(name[:-9]) for name in names if name.endswith(SNAPSHOT_SUFFIX) and name[:-9].isdecimal())

    def new_segment(self, base_offset: int, size: int, created_ms: int, *, active: bool) -> Segment:
        """A segment object with this log's settings; its files are the caller's business."""
        return Segment(
            self.pool,
            self.folder,
            base_offset,
            size=size,
            index_interval_bytes=self.config.index_interval_bytes,
            index_bytes_max=self.config.segment_index_bytes,
            created_ms=created_ms,
            active=active,
        )

    def add_segment(self, base_offset: int, now_ms: int) -> None:
        segment = self.new_segment(base_offset, 0, now_ms, active=True)
        fd = segment.file.create()
        if self.config.preallocate:
            self.pool.fs.truncate(fd, self._segment_bytes)
        self.segments.append(segment)
        self.active = segment

    # Reading.

    def read(
        self, offset: int, max_bytes: int, *, upper_offset: int | None = None, min_one_batch: bool = True
    ) -> FileSlice:
        """Whole batches from the one that holds `offset`, before `upper_offset`, at most `max_bytes` of them.

        With `min_one_batch` the first batch comes even if it is larger. EMPTY when there is nothing; KafkaError(OFFSET_OUT_OF_RANGE)
        outside of the log.
        """
        end = self.log_end_offset
        if offset > end or offset < self.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in [{self.log_start_offset}, {end}]"
            )
        if upper_offset is None or upper_offset > end:
            upper_offset = end
        active = self.active
        if offset >= upper_offset:
            if offset == end:
                active.remember(end, active.size)
            return EMPTY
        if max_bytes <= 0 and not min_one_batch:
            return EMPTY
        if offset >= active.base_offset:
            return active.read(offset, max_bytes, upper_offset, min_one_batch)
        for index in range(self._segment_index(offset), len(self.segments)):
            found = self.segments[index].read(offset, max_bytes, upper_offset, min_one_batch)
            if found.size:
                return found
            if self.segments[index].next_offset >= upper_offset:
                break
        return EMPTY

    def _segment_index(self, offset: int) -> int:
        """Which segment holds `offset`; the first for offsets before all."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records in [start, upper), in the order of their first offsets."""
        found = []
        for segment in self.segments[self._segment_index(start_offset) :]:
            if segment.txn_index is None:
                continue
            for entry in recovery.aborted_entries(self, segment):
                if entry.last_offset >= start_offset and entry.first_offset < upper_offset:
                    found.append(entry)
                if entry.last_stable_offset >= upper_offset:
                    return sorted(found, key=attrgetter("first_offset"))
        return sorted(found, key=attrgetter("first_offset"))

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after a time."""
        return time_lookup.offset_for_timestamp(self, timestamp)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of all."""
        return time_lookup.max_timestamp_offset(self)

    # What is known.

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def first_unstable_offset(self) -> int:
        """Where the oldest undecided transaction begins; -1 when there is none."""
        first = self.producers.first_unstable_offset
        return max(first, self.log_start_offset) if first >= 0 else -1

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch that wrote an offset; -1 when unknown."""
        return self.epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest known epoch not above `epoch`; (-1, -1) when there is none."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def active_producers(self) -> Iterator[ActiveProducer]:
        """All producers that are remembered."""
        for state in self.producers.states.values():
            yield ActiveProducer(
                state.producer_id,
                state.epoch,
                state.last_sequence,
                state.last_timestamp,
                state.coordinator_epoch,
                state.txn_first_offset,
            )

    # Changing other things than the end.

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Let the log begin later; the segments before it go with the next `delete_old_segments`."""
        if offset <= self.log_start_offset:
            return False
        assert offset <= self.log_end_offset, "the caller compares with the high watermark"
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True

    def truncate_to(self, offset: int, now_ms: int) -> list[str]:
        """Drop everything from `offset` on; returns the files to unlink."""
        return truncation.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> list[str]:
        """Drop everything; the log begins anew at `offset`. Returns the files to unlink."""
        return truncation.truncate_fully(self, offset, now_ms)

    def begin_before_start(self, first_offset: int, now_ms: int) -> None:
        """Make room, in a log that is empty, for a batch that holds the log's start but begins before it."""
        truncation.begin_before_start(self, first_offset, now_ms)

    def delete_old_segments(self, now_ms: int, high_watermark: int | None = None) -> list[str]:
        """Let go of segments by retention; returns their files, renamed to .deleted, to unlink after file.delete.delay.ms."""
        return retention.delete_old_segments(
            self, now_ms, self.log_end_offset if high_watermark is None else high_watermark
        )

    def expire_producers(self, now_ms: int, producer_id_expiration_ms: int) -> None:
        """Forget producers that have been silent for producer.id.expiration.ms."""
        self.producers.expire(now_ms, producer_id_expiration_ms)

    # Making it durable.

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a flush now."""
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed > 0 and (
            unflushed >= self.config.flush_messages or now_ms - self.last_flush_ms >= self.config.flush_ms
        )

    def prepare_flush(self, up_to: int | None = None) -> FlushWork:
        """The work of making the log durable up to an offset: run it in any thread, then `finish` it on the loop."""
        return FlushWork(self, self.log_end_offset if up_to is None else up_to)

    def flush(self, now_ms: int, up_to: int | None = None) -> None:
        """Make the log durable here and now."""
        work = self.prepare_flush(up_to)
        try:
            work.run()
        finally:
            work.finish(now_ms)

    def close(self, *, sync: bool = True) -> None:
        """Write what is only in memory and close the files. Flush before, so that the recovery point is the log's end.

        Without `sync` the caller makes the whole disk durable before it calls the stop a clean one.
        """
        if self.failure is None:
            fs = self.pool.fs
            self.active.save_indexes()
            with storage_errors(self.folder):
                if self.config.preallocate:
                    fs.truncate(self.active.file.descriptor(), self.active.size)
                # An index is checked when it is used, these two are believed: they have to be as durable as the mark of the stop.
                self.epochs.save(fs, self.folder, sync=sync)
                if self.producers.states or self.last_snapshot_offset >= 0:
                    self.take_snapshot(sync=sync)
        self.close_files()

    def close_files(self) -> None:
        """Close every descriptor, writing nothing: before the folder is deleted, or after a crash in a test."""
        for segment in self.segments:
            segment.file.close()
