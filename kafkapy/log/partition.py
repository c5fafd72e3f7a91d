"""A partition on this broker: its role, how far its records are replicated, and its log.

The log is opened when the partition is touched for the first time, so ten thousand idle ones cost next to nothing.

    leader     appends what clients send; the high watermark is the smallest log end among the replicas in sync, and it stands still
               while fewer than min.insync.replicas of them are there. Alone in sync, the leader's own log end is the high watermark.
    follower   appends what it fetches; the high watermark is what the leader says, at most its own log end.
    neither    answers NOT_LEADER_OR_FOLLOWER.

Invariant: log start <= last stable offset <= high watermark <= log end. The high watermark never falls within a leader epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.append_info import AppendInfo, AppendOrigin
from kafkapy.log.files import EMPTY, FileSlice
from kafkapy.log.log import Log
from kafkapy.log.progress import FollowerProgress
from kafkapy.types import TopicPartition
from kafkapy.wire.record_batch import BATCH_HEADER_BYTES, check_crc, read_header

NO_LEADER = -1
NO_EPOCH = -1
CONSUMER_REPLICA_ID = -1

_CLIENT = AppendOrigin.CLIENT


class PartitionRead(NamedTuple):
    """What a Fetch is answered with for one partition."""

    records: FileSlice
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]  # (producer id, first offset); only when committed records were asked for
    diverging: tuple[int, int] | None  # (epoch, end offset) where the asker's history parts from ours


class Watcher(Protocol):
    """Who follows what happens to partitions that others replicate: the sessions of the followers, and who watches over the ISR."""

    def has_news(self, partition: Partition) -> None:
        """Records were appended here, or the role or the log start changed: a follower has something to fetch."""

    def high_watermark_rose(self, partition: Partition) -> None:
        """More is committed than before."""

    def outsider_fetched(self, partition: Partition, replica_id: int, now_ms: int) -> None:
        """A replica that is not in sync has told its position: it may be in sync now."""


class Throttle(Protocol):
    """Holds copies back (see replication/throttle.py)."""

    def take(self, size: int, now_ms: int) -> None:
        """So many bytes travelled."""

    def wait_ms(self, now_ms: int) -> int:
        """How long the next piece has to wait; 0: it may go now."""


class Partition:
    """One replica of a partition: this broker's. It is also the key on which fetches and produces wait."""

    __slots__ = (
        "_alone",
        "_checkpointed_high_watermark",
        "_high_watermark",
        "_log",
        "_open_log",
        "follower_throttle",
        "followers",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "leader_throttle",
        "node_id",
        "partition_epoch",
        "proposed_isr",
        "replicas",
        "topic_id",
        "topic_partition",
        "watchers",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        node_id: int,
        open_log: Callable[[], Log],
        checkpointed_high_watermark: int = 0,
    ) -> None:
        """`open_log` gives the log when it is needed; it is asked once."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = 0
        self.is_leader = False
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        # Asked of the controller and not answered yet: the high watermark must hold for them too.
        self.proposed_isr: tuple[int, ...] = ()
        self.followers: dict[int, FollowerProgress] = {}
        # A tuple that is replaced when it changes: it is walked in every append to a partition with followers.
        self.watchers: tuple[Watcher, ...] = ()
        # Set where the topic's configuration names this replica as throttled.
        self.leader_throttle: Throttle | None = None
        self.follower_throttle: Throttle | None = None
        self._alone = False
        self._open_log = open_log
        self._log: Log | None = None
        self._checkpointed_high_watermark = checkpointed_high_watermark
        self._high_watermark = 0

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        return f"Partition({self.topic_partition}, {role} in epoch {self.leader_epoch})"

    # Produce.

    def append_as_leader(
        self,
        records: memoryview | bytes | bytearray,
        *,
        now_ms: int,
        produce_version: int = 13,
        required_acks: int = 1,
        origin: AppendOrigin = _CLIENT,
        transaction_verified: bool = True,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append one batch. Raises KafkaError for what is refused and StorageError when the disk fails."""
        if not self.is_leader:
            raise self._not_leader()
        log = self._log if self._log is not None else self._opened_log()
        if required_acks == -1 and len(self.isr) < log.config.min_insync_replicas and self._under_min_isr(log):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} replicas of {self.topic_partition} are in sync, "
                f"min.insync.replicas is {log.config.min_insync_replicas}",
            )
        info = log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            produce_version=produce_version,
            transaction_verified=transaction_verified,
            transaction_version=transaction_version,
        )
        if self._alone:
            self._high_watermark = log.log_end_offset
            log.producers.high_watermark_reached(log.log_end_offset)
        else:
            if len(self.isr) == 1:
                self.raise_high_watermark()
            for watcher in self.watchers:
                watcher.has_news(self)
        return info

    # Fetch.

    def read(
        self,
        fetch_offset: int,
        max_bytes: int,
        *,
        committed_only: bool = False,
        min_one_batch: bool = True,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        replica_id: int = CONSUMER_REPLICA_ID,
        from_any_replica: bool = False,
    ) -> PartitionRead:
        """Records from `fetch_offset` on: for a consumer up to the high watermark (or the last stable offset), for a follower all.

        `from_any_replica`: the consumer may be served by a follower, which may be behind but shows nothing that is not committed.
        """
        if not self.is_leader or current_leader_epoch >= 0:
            self.check_epoch(current_leader_epoch)
            if not self.is_leader and not (from_any_replica and self.leader_epoch >= 0):
                raise self._not_leader()
        log = self._log if self._log is not None else self._opened_log()
        high_watermark = self._high_watermark
        stable = self.last_stable_offset
        if last_fetched_epoch >= 0:
            diverging = self._divergence(log, fetch_offset, last_fetched_epoch)
            if diverging is not None:
                return PartitionRead(EMPTY, high_watermark, stable, log.log_start_offset, [], diverging)
        if replica_id >= 0:
            upper = log.log_end_offset
        else:
            upper = stable if committed_only else high_watermark
        records = log.read(fetch_offset, max_bytes, upper_offset=upper, min_one_batch=min_one_batch)
        aborted: list[tuple[int, int]] = []
        if committed_only and records.size:
            found = log.aborted_transactions(fetch_offset, min(records.end_offset, upper))
            aborted = [(entry.producer_id, entry.first_offset) for entry in found]
        return PartitionRead(records, high_watermark, stable, log.log_start_offset, aborted, None)

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the history of one who would go on from `fetch_offset` parts from this log, if it does: (epoch, its end here).

        KafkaError(OFFSET_OUT_OF_RANGE) where the offset is not in this log.
        """
        log = self.log
        if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
            if last_fetched_epoch >= 0 and fetch_offset > log.log_end_offset:
                return self._divergence(log, fetch_offset, last_fetched_epoch)
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {fetch_offset} is not in [{log.log_start_offset}, {log.log_end_offset}]",
            )
        if last_fetched_epoch < 0 or last_fetched_epoch == log.epochs.latest_epoch:
            return None
        return self._divergence(log, fetch_offset, last_fetched_epoch)

    def _divergence(self, log: Log, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the asker's history parts from this log, if its last epoch ended here before its offset."""
        epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or end_offset < 0 or fetch_offset < log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {fetch_offset} with epoch {last_fetched_epoch} is not known here",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    # What handlers ask.

    @property
    def log(self) -> Log:
        """The log, opened now if it was not."""
        return self._log if self._log is not None else self._opened_log()

    @property
    def opened(self) -> Log | None:
        """The log if it is open: for those who visit all partitions and must not wake the idle ones."""
        return self._log

    @property
    def high_watermark(self) -> int:
        """The offset before which everything is replicated."""
        if self._log is None:
            self._opened_log()
        return self._high_watermark

    @property
    def known_high_watermark(self) -> int:
        """The high watermark for the checkpoint file: without opening an idle log, what the file said."""
        return self._high_watermark if self._log is not None else self._checkpointed_high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset before which no transaction is undecided."""
        log = self._log if self._log is not None else self._opened_log()
        first = log.producers.first_unstable_offset
        if 0 <= first < self._high_watermark:
            return max(first, log.log_start_offset)
        return self._high_watermark

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for acks=all."""
        return self._under_min_isr(self.log)

    @property
    def epoch_start_offset(self) -> int:
        """Where this leader's epoch began: no consumer may be told of an earlier end before the high watermark is there; -1: not known."""
        for entry in reversed(self.log.epochs.entries):
            if entry.epoch == self.leader_epoch:
                return entry.start_offset
        return -1

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse when this broker does not lead, or when the asker lives in another leader epoch; -1: it does not say."""
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise self._not_leader()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse who lives in another leader epoch; -1: it does not say."""
        if 0 <= current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")
        if current_leader_epoch > self.leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) when there is none."""
        return self.log.end_offset_for_epoch(epoch)

    def delete_records(self, offset: int) -> int:
        """Let the log begin at `offset` (-1: the high watermark); the new low watermark."""
        self.check_leader()
        log = self.log
        if log.config.cleanup_policy and "delete" not in log.config.cleanup_policy:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "the records of a topic that is only compacted cannot be deleted"
            )
        if offset == -1:
            offset = self._high_watermark
        if not 0 <= offset <= self._high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is beyond the high watermark {self._high_watermark}"
            )
        if log.maybe_increment_log_start_offset(offset):
            self.tell_watchers()
        return self.low_watermark()

    def low_watermark(self, is_alive: Callable[[int], bool] | None = None) -> int:
        """The smallest log start among the replicas whose broker lives: what is before it is gone everywhere."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if is_alive is None or is_alive(follower.replica_id)
        ]
        return min([self.log.log_start_offset, *starts])

    # Role.

    def make_leader(
        self,
        leader_epoch: int,
        isr: Iterable[int],
        replicas: Iterable[int],
        *,
        partition_epoch: int = 0,
        now_ms: int = 0,
    ) -> None:
        """This broker leads from now on, or goes on with another set of replicas."""
        if self.is_leader and leader_epoch == self.leader_epoch and partition_epoch < self.partition_epoch:
            return  # The controller's answer to a change of ours has told more already.
        new_epoch = leader_epoch != self.leader_epoch or not self.is_leader
        self.leader_id = self.node_id
        if new_epoch or partition_epoch != self.partition_epoch:
            self.proposed_isr = ()
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.is_leader = True
        self.isr = tuple(isr)
        self.replicas = tuple(replicas)
        others = [replica for replica in self.replicas if replica != self.node_id]
        known = {} if new_epoch else self.followers
        self.followers = {
            replica: known.get(replica) or FollowerProgress(replica, now_ms, in_sync=replica in self.isr)
            for replica in others
        }
        self._alone = self.isr == (self.node_id,) and self.replicas == self.isr
        if self._log is not None:
            if new_epoch:
                self._begin_epoch(self._log)
            self.raise_high_watermark()
        self.tell_watchers()

    def make_follower(
        self,
        leader_id: int,
        leader_epoch: int,
        isr: Iterable[int],
        replicas: Iterable[int],
        *,
        partition_epoch: int = 0,
    ) -> None:
        """Another broker leads, or none does (-1). Nothing is cut here: what the leader lacks, its epochs tell."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.is_leader = self._alone = False
        self.isr = tuple(isr)
        self.proposed_isr = ()
        self.replicas = tuple(replicas)
        self.followers = {}
        self.tell_watchers()

    def change_isr(self, isr: Iterable[int], partition_epoch: int) -> bool:
        """The controller's answer to what this leader asked for; whether the high watermark rose by it."""
        if partition_epoch >= self.partition_epoch:
            self.isr = tuple(isr)
            self.partition_epoch = partition_epoch
            self.proposed_isr = ()
            self._alone = self.isr == (self.node_id,) and self.replicas == self.isr
        return self.raise_high_watermark()

    def tell_watchers(self) -> None:
        """Something happened that followers have to be told."""
        for watcher in self.watchers:
            watcher.has_news(self)

    def _begin_epoch(self, log: Log) -> None:
        """Note where this leader's epoch begins, so that questions about it are answered before its first batch."""
        log.epochs.assign(self.leader_epoch, log.log_end_offset)

    # Replication, as leader.

    def note_follower(
        self, replica_id: int, fetch_offset: int, log_start_offset: int, now_ms: int, broker_epoch: int = -1
    ) -> bool:
        """A follower asked for the records from `fetch_offset` on; whether the high watermark rose by it."""
        progress = self.followers.get(replica_id)
        if progress is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} holds no replica of {self.topic_partition}"
            )
        progress.fetched(fetch_offset, log_start_offset, self.log.log_end_offset, now_ms, broker_epoch)
        rose = self.raise_high_watermark()
        if replica_id not in self.isr:
            for watcher in self.watchers:
                watcher.outsider_fetched(self, replica_id, now_ms)
        return rose

    def raise_high_watermark(self) -> bool:
        """Raise the high watermark to what all replicas in sync have, if there are enough of them; whether it rose."""
        log = self.log
        if not self.is_leader or self._under_min_isr(log):
            return False
        lowest = log.log_end_offset
        for replica in {*self.isr, *self.proposed_isr}:
            progress = self.followers.get(replica)
            if progress is not None and progress.end_offset < lowest:
                lowest = progress.end_offset
        if not self._raise_to(lowest):
            return False
        for watcher in self.watchers:
            watcher.high_watermark_rose(self)
        return True

    def out_of_sync(self, now_ms: int, lag_ms_max: int) -> list[int]:
        """The replicas in sync that have been behind for too long."""
        end = self.log.log_end_offset
        return [
            replica
            for replica in self.isr
            if replica in self.followers and not self.followers[replica].is_caught_up(end, now_ms, lag_ms_max)
        ]

    def may_join_isr(self) -> list[int]:
        """The replicas out of sync that have reached the high watermark, and this leader's epoch."""
        threshold = max(self._high_watermark, self.epoch_start_offset)
        return [
            replica
            for replica, progress in self.followers.items()
            if replica not in self.isr and progress.end_offset >= threshold
        ]

    def _under_min_isr(self, log: Log) -> bool:
        """Whether fewer replicas are in sync than the topic demands, which is never more than it has."""
        return len(self.isr) < min(log.config.min_insync_replicas, len(self.replicas))

    # Replication, as follower.

    def append_as_follower(
        self, records: memoryview | bytes | bytearray, *, now_ms: int, leader_high_watermark: int
    ) -> AppendInfo:
        """Append what was fetched from the leader, and follow its high watermark."""
        log = self.log
        start = log.log_start_offset
        if (
            log.log_end_offset == start
            and len(records) >= BATCH_HEADER_BYTES
            and read_header(records).base_offset < start
        ):
            self._begin_within_batch(log, records, now_ms)
        info = log.append_as_follower(records, now_ms=now_ms, leader_epoch=self.leader_epoch)
        self.follow_high_watermark(leader_high_watermark)
        return info

    def _begin_within_batch(self, log: Log, records: memoryview | bytes | bytearray, now_ms: int) -> None:
        """Records were deleted up to the middle of a batch: a log that begins there still has to hold the whole batch."""
        header = read_header(records)
        if header.next_offset > log.log_start_offset and header.size <= len(records):
            check_crc(records, 0, header)
            log.begin_before_start(header.base_offset, now_ms)

    def follow_high_watermark(self, leader_high_watermark: int) -> bool:
        """The leader's high watermark holds here as far as this log reaches; whether ours rose."""
        return self._raise_to(min(leader_high_watermark, self.log.log_end_offset))

    def follow_log_start(self, leader_log_start_offset: int) -> bool:
        """Records were deleted on the leader: they go here too, as far as this log reaches; whether any did."""
        log = self.log
        if leader_log_start_offset <= log.log_start_offset:
            return False
        log.maybe_increment_log_start_offset(min(leader_log_start_offset, log.log_end_offset))
        self._raise_to(log.log_start_offset)
        return True

    def truncate_to(self, offset: int, now_ms: int) -> list[str]:
        """Cut what the leader does not have; returns the files to unlink."""
        log = self.log
        paths = log.truncate_to(offset, now_ms)
        self._high_watermark = min(self._high_watermark, log.log_end_offset)
        # The producers were read anew from the log, and with them transactions that ended long ago.
        log.producers.high_watermark_reached(self._high_watermark)
        return paths

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> list[str]:
        """Begin anew at the leader's log start; returns the files to unlink."""
        paths = self.log.truncate_fully_and_start_at(offset, now_ms)
        self._high_watermark = offset
        return paths

    # Housekeeping.

    def delete_old_segments(self, now_ms: int) -> list[str]:
        """Apply retention; returns the files to unlink after file.delete.delay.ms."""
        return self.log.delete_old_segments(now_ms, self.high_watermark)

    def _opened_log(self) -> Log:
        log = self._log = self._open_log()
        self._high_watermark = max(log.log_start_offset, min(self._checkpointed_high_watermark, log.log_end_offset))
        log.producers.high_watermark_reached(self._high_watermark)
        if self.is_leader:
            self._begin_epoch(log)
            self.raise_high_watermark()
        return log

    def _raise_to(self, high_watermark: int) -> bool:
        if high_watermark <= self._high_watermark:
            return False
        self._high_watermark = high_watermark
        self.log.producers.high_watermark_reached(high_watermark)
        return True

    def _not_leader(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")
