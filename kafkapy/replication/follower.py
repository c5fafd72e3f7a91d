"""Copying partitions from one leader: which Fetch to send, and what its answer does to the logs. Without a clock and without a socket.

    next_request   one incremental fetch session (KIP-227) for all partitions of this leader; a request names those whose position has changed
    answered       whole batches are appended as they came; the next request's offsets are the acknowledgement

What the leader may say of a partition:

    records            appended, if they are for the offset at which our log ends now; the high watermark and the log start follow the leader's
    diverging epoch    our history parts from the leader's: cut to where the last epoch that both know ended, and ask again. Nothing else cuts a log
                       that the leader's log reaches, and the high watermark never does
    out of range       the leader is asked where its log ends and begins. Shorter than ours, which only an unclean election brings about: cut to its
                       end. Beginning after our end: start anew there
    any other error    this partition pauses for a short time that doubles up to replica.fetch.backoff.ms; the others go on

A request leaves while another waits at the leader when partitions have come that it doesn't follow yet: the leader answers the earlier one
at once (an Apache Kafka broker handles them one after the other, which is only slower). Records for an offset that isn't our end are dropped.

Invariant: a partition that is followed is in the session, in `_dirty` (to be named in the next request; it may be in the session too), in `_delayed`,
in `_lost` (its offsets are to be looked up), or has failed, which only a change of role ends.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.log.filesystem import DiskFullError
from kafkapy.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kafkapy.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition

log = logging.getLogger("kafkapy.follower")

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 9
BACKOFF_MS_MIN = 20
# After a broken connection or a session that the leader doesn't know, everything is asked anew after this time.
RECONNECT_MS = 20
# New partitions in one request: their logs are opened for it, and the others must not wait for thousands.
NEW_PER_REQUEST_MAX = 250
IN_FLIGHT_MAX = 2
LATEST, EARLIEST = -1, -2


class FetchSettings(NamedTuple):
    """The replica.fetch.* part of the configuration."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff_ms: int = 1000


class FollowerHost(Protocol):
    """What a follower has others do."""

    def storage_failed(self, error: StorageError) -> None:
        """A disk failed, or is full."""

    def truncate(self, partition: Partition, offset: int, now_ms: int) -> None:
        """Cut the log to `offset`."""

    def start_anew(self, partition: Partition, offset: int, now_ms: int) -> None:
        """Drop the whole log; it begins at `offset`."""

    def committed(self, partition: Partition) -> None:
        """The high watermark rose: consumers may wait for it here."""

    def may_fetch(self, partition: Partition, now_ms: int) -> int:
        """0 when this partition may be fetched now; else the milliseconds for which its throttle holds it back."""

    def received(self, partition: Partition, size: int, now_ms: int) -> None:
        """So many bytes of it came."""


class Followed:
    """One partition that is copied from this leader."""

    __slots__ = (
        "backoff_ms", "in_session", "index", "leader_epoch", "partition", "retry_at_ms", "said", "topic_id",
    )  # fmt: skip

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.topic_id = partition.topic_id
        self.index = partition.topic_partition.partition
        self.leader_epoch = partition.leader_epoch
        self.in_session = False
        # (number of the request, offset) of each time that it was named, the earliest that an open request may still answer first.
        self.said: list[tuple[int, int]] = []
        self.backoff_ms = 0
        self.retry_at_ms = 0

    def offset_asked(self, number: int) -> int:
        """Where the answer to this request begins: the offset that was named last in it or before it; -1: not named by then."""
        said = self.said
        while len(said) > 1 and said[1][0] <= number:
            del said[0]
        return said[0][1] if said and said[0][0] <= number else -1


class Sent(NamedTuple):
    """A request on its way: which kind, and in which life of the session."""

    request: FetchRequest | ListOffsetsRequest
    generation: int
    number: int


class LeaderFetcher:
    """What this broker copies from one leader over one connection."""

    def __init__(self, leader_id: int, node_id: int, settings: FetchSettings, host: FollowerHost) -> None:
        self.leader_id = leader_id
        self.node_id = node_id
        self.settings = settings
        self._host = host
        self._followed: dict[tuple[bytes, int], Followed] = {}
        self._dirty: dict[Followed, None] = {}
        self._delayed: dict[Followed, None] = {}
        self._lost: dict[Followed, int] = {}  # which offset of the leader's is looked up: LATEST, then EARLIEST
        self._forgotten: dict[tuple[bytes, int], None] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._sessionless = False  # The leader had no room for a session of ours.
        self._generation = 0
        self._number = 0  # of the last request
        self._in_flight: deque[Sent] = deque()
        self._looking_up: ListOffsetsRequest | None = None
        self._not_before_ms = 0

    def __len__(self) -> int:
        return len(self._followed)

    # What is followed.

    def follow(self, partition: Partition) -> None:
        """Copy this partition, which has become a follower of this leader, or learnt of a new epoch of it."""
        key = (partition.topic_id, partition.topic_partition.partition)
        known = self._followed.get(key)
        if known is not None and known.partition is partition and known.leader_epoch == partition.leader_epoch:
            if known in self._delayed:  # Something changed, so it is worth asking at once.
                self._undelay(known)
            return
        if known is not None:
            self._drop(known)
        followed = self._followed[key] = Followed(partition)
        if key in self._forgotten:  # The leader has not been told yet: naming it again will do.
            del self._forgotten[key]
            followed.in_session = True
        self._dirty[followed] = None

    def unfollow(self, partition: Partition) -> None:
        """Stop copying it: another leads, or it is gone."""
        known = self._followed.get((partition.topic_id, partition.topic_partition.partition))
        if known is not None and known.partition is partition:
            self._drop(known)

    def follows(self, partition: Partition) -> bool:
        """Whether it is copied from here."""
        known = self._followed.get((partition.topic_id, partition.topic_partition.partition))
        return known is not None and known.partition is partition

    def partitions(self) -> list[Partition]:
        """All that are copied from here."""
        return [followed.partition for followed in self._followed.values()]

    def _drop(self, followed: Followed) -> None:
        key = (followed.topic_id, followed.index)
        del self._followed[key]
        self._leave_session(followed)
        for where in (self._dirty, self._delayed, self._lost):
            where.pop(followed, None)

    def _leave_session(self, followed: Followed) -> None:
        if followed.in_session:
            followed.in_session = False
            self._forgotten[followed.topic_id, followed.index] = None

    # Asking.

    def next_request(self, now_ms: int, broker_epoch: int) -> FetchRequest | ListOffsetsRequest | None:
        """What to send now; None when there is nothing to ask, or enough has been asked."""
        if now_ms < self._not_before_ms or not self._followed:
            return None
        self._not_before_ms = 0
        for followed in [one for one in self._delayed if one.retry_at_ms <= now_ms]:
            self._undelay(followed)
        if self._lost and self._looking_up is None:
            return self._lookup_request()
        fetches = len(self._in_flight) - (self._looking_up is not None)
        if fetches and (not self._dirty or not self._session_id or fetches >= IN_FLIGHT_MAX):
            return None
        if not self._dirty and not self._forgotten and not any(one.in_session for one in self._followed.values()):
            return None
        self._number += 1
        request = self._fetch_request(now_ms, broker_epoch)
        if request is not None:
            self._in_flight.append(Sent(request, self._generation, self._number))
        return request

    def next_time_ms(self) -> int | None:
        """When `next_request` may have something although nothing was answered; None: not before something happens."""
        times = [followed.retry_at_ms for followed in self._delayed]
        if self._not_before_ms:
            times.append(self._not_before_ms)
        return min(times, default=None)

    def _undelay(self, followed: Followed) -> None:
        del self._delayed[followed]
        self._dirty[followed] = None

    def _fetch_request(self, now_ms: int, broker_epoch: int) -> FetchRequest | None:
        full = not self._session_id
        topics: dict[bytes, FetchTopic] = {}
        new = 0
        for followed in list(self._dirty):
            if not followed.in_session:
                if new == NEW_PER_REQUEST_MAX:
                    continue
                new += 1
            asked = self._position(followed, now_ms)
            if asked is None:
                continue
            topic = topics.get(followed.topic_id)
            if topic is None:
                topic = topics[followed.topic_id] = FetchTopic(topic_id=followed.topic_id)
            topic.partitions.append(asked)
            followed.in_session = True
            del self._dirty[followed]
        if full and not topics:
            return None
        forgotten: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
        self._forgotten.clear()
        settings = self.settings
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.node_id, replica_epoch=broker_epoch),
            # Neither while more partitions are to be added nor before the session is known shall the leader wait: nothing could be added.
            max_wait_ms=0 if self._dirty or (full and not self._sessionless) else settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=[] if full else list(forgotten.values()),
        )
        if not full:
            self._session_epoch = self._session_epoch % 0x7FFFFFFF + 1
        return request

    def _position(self, followed: Followed, now_ms: int) -> FetchPartition | None:
        """Where this partition goes on; None if it cannot now."""
        held_ms = self._host.may_fetch(followed.partition, now_ms)
        if held_ms:
            self._delay(followed, now_ms, held_ms)
            return None
        try:
            replica = followed.partition.log
            if replica.failure is not None:
                raise replica.failure
        except StorageError as error:
            self._failed(followed, error, now_ms)
            return None
        except KafkaError as error:
            log.error("%s cannot be copied: %s", followed.partition.topic_partition, error)
            self._delay(followed, now_ms)
            return None
        if not self._in_flight:
            followed.said.clear()
        followed.said.append((self._number, replica.log_end_offset))
        return FetchPartition(
            partition=followed.index,
            current_leader_epoch=followed.leader_epoch,
            fetch_offset=replica.log_end_offset,
            last_fetched_epoch=replica.epochs.latest_epoch,
            log_start_offset=replica.log_start_offset,
            partition_max_bytes=self.settings.partition_max_bytes,
        )

    def _lookup_request(self) -> ListOffsetsRequest:
        """Ask for the offsets of those that are out of the leader's range."""
        topics: dict[str, ListOffsetsTopic] = {}
        for followed, timestamp in self._lost.items():
            name = followed.partition.topic_partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = ListOffsetsTopic(name=name)
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=followed.index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(replica_id=self.node_id, topics=list(topics.values()))
        self._looking_up = request
        self._number += 1
        self._in_flight.append(Sent(request, self._generation, self._number))
        return request

    # Answers.

    def answered(
        self,
        request: FetchRequest | ListOffsetsRequest,
        response: FetchResponse | ListOffsetsResponse | None,
        now_ms: int,
    ) -> None:
        """Take the answer to the oldest request that is open; None: there is no connection any more."""
        sent = self._in_flight.popleft()
        assert sent.request is request, "answers come in the order of the requests"
        if request is self._looking_up:
            self._looking_up = None
        if sent.generation != self._generation:
            return
        self._not_before_ms = 0
        if response is None:
            self._begin_session_anew()
            self._not_before_ms = now_ms + RECONNECT_MS
        elif isinstance(response, ListOffsetsResponse):
            self._offsets_found(response, now_ms)
        elif response.error_code:
            if self._session_id == 0:
                self._not_before_ms = now_ms + RECONNECT_MS
            log.info("leader %d ended the fetch session: %s", self.leader_id, ErrorCode(response.error_code).name)
            self._begin_session_anew()
        else:
            assert isinstance(request, FetchRequest), "the answer to a Fetch"
            self._fetched(sent, response, now_ms)

    def _begin_session_anew(self) -> None:
        """Forget the session: the next request names everything."""
        self._generation += 1
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        for followed in self._followed.values():
            if followed.in_session:
                followed.in_session = False
                self._dirty[followed] = None

    def _fetched(self, sent: Sent, response: FetchResponse, now_ms: int) -> None:
        if not self._session_id:
            self._session_id = response.session_id
            self._session_epoch = 1 if response.session_id else 0
            self._sessionless = not response.session_id
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                if followed is not None and followed.in_session:
                    self._take(followed, data, sent.number, now_ms)
        if not self._session_id:  # A leader without room for a session: everything is named each time.
            for followed in self._followed.values():
                if followed.in_session:
                    followed.in_session = False
                    self._dirty[followed] = None

    def _take(self, followed: Followed, data: PartitionData, number: int, now_ms: int) -> None:
        """One partition's part of the answer to this request."""
        partition = followed.partition
        asked = followed.offset_asked(number)
        if asked < 0:
            return
        if data.error_code:
            self._refused(followed, ErrorCode(data.error_code), now_ms)
            return
        if partition.leader_epoch != followed.leader_epoch or partition.is_leader:
            return
        try:
            if asked != partition.log.log_end_offset:
                # It answers what was asked before our end moved; that has been asked anew.
                if data.records or data.diverging_epoch.epoch >= 0:
                    self._dirty[followed] = None
                return
            if data.diverging_epoch.epoch >= 0:
                self._cut(followed, data.diverging_epoch.epoch, data.diverging_epoch.end_offset, now_ms)
                return
            before = partition.known_high_watermark
            if data.records:
                self._dirty[followed] = None
                self._host.received(partition, len(data.records), now_ms)
                partition.append_as_follower(data.records, now_ms=now_ms, leader_high_watermark=data.high_watermark)
            else:
                partition.follow_high_watermark(data.high_watermark)
            followed.backoff_ms = 0
            if data.log_start_offset > partition.log.log_start_offset and partition.follow_log_start(
                data.log_start_offset
            ):
                self._dirty[followed] = None
            if partition.known_high_watermark != before:
                self._host.committed(partition)
        except KafkaError as error:
            log.error("%s: what leader %d sent is refused: %s", partition.topic_partition, self.leader_id, error)
            self._delay(followed, now_ms)
        except StorageError as error:
            self._failed(followed, error, now_ms)

    def _refused(self, followed: Followed, code: ErrorCode, now_ms: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._leave_session(followed)
            self._dirty.pop(followed, None)
            self._lost[followed] = LATEST
        else:
            log.debug("%s: leader %d answers %s", followed.partition.topic_partition, self.leader_id, code.name)
            self._delay(followed, now_ms)

    def _delay(self, followed: Followed, now_ms: int, for_ms: int = 0) -> None:
        """Leave this partition alone for a while."""
        self._leave_session(followed)
        self._dirty.pop(followed, None)
        if not for_ms:
            followed.backoff_ms = for_ms = min(
                max(BACKOFF_MS_MIN, 2 * followed.backoff_ms), max(BACKOFF_MS_MIN, self.settings.backoff_ms)
            )
        followed.retry_at_ms = now_ms + for_ms
        self._delayed[followed] = None

    def _failed(self, followed: Followed, error: StorageError, now_ms: int) -> None:
        """A full disk may have room again; one that failed takes its partitions out, and no others."""
        self._host.storage_failed(error)
        opened = followed.partition.opened
        if isinstance(error, DiskFullError) and (opened is None or opened.failure is None):
            self._delay(followed, now_ms)
        else:
            self._leave_session(followed)
            self._dirty.pop(followed, None)

    # Cutting.

    def _cut(self, followed: Followed, epoch: int, end_offset: int, now_ms: int) -> None:
        """Our history parts from the leader's, which had `epoch` before ours and ended it at `end_offset`."""
        partition = followed.partition
        replica = partition.log
        known_epoch, known_end = replica.end_offset_for_epoch(epoch)
        if known_epoch < 0:
            target = min(end_offset, replica.log_end_offset)
        elif known_epoch != epoch:
            # The leader's epoch is not known here: cut back to the one before it, and ask the leader about that one.
            target = min(known_end, replica.log_end_offset)
        else:
            target = min(known_end, end_offset, replica.log_end_offset)
        if target < partition.high_watermark:
            log.warning(
                "%s: cutting to %d, below the high watermark %d: the leader lacks what was committed",
                partition.topic_partition,
                target,
                partition.high_watermark,
            )
        log.info(
            "%s: cutting from %d to %d, where the history of leader %d parts from ours",
            partition.topic_partition,
            replica.log_end_offset,
            target,
            self.leader_id,
        )
        self._host.truncate(partition, target, now_ms)
        self._dirty[followed] = None

    def _offsets_found(self, response: ListOffsetsResponse, now_ms: int) -> None:
        by_name = {
            (followed.partition.topic_partition.topic, followed.index): followed for followed in list(self._lost)
        }
        for topic in response.topics:
            for answer in topic.partitions:
                followed = by_name.get((topic.name, answer.partition_index))
                if followed is None or self._followed.get((followed.topic_id, followed.index)) is not followed:
                    continue
                try:
                    if answer.error_code:
                        del self._lost[followed]
                        self._delay(followed, now_ms)
                    elif self._lost[followed] == LATEST:
                        self._leader_ends(followed, answer.offset, now_ms)
                    else:
                        self._leader_begins(followed, answer.offset, now_ms)
                except StorageError as error:
                    self._lost.pop(followed, None)
                    self._failed(followed, error, now_ms)

    def _leader_ends(self, followed: Followed, offset: int, now_ms: int) -> None:
        partition = followed.partition
        if offset >= partition.log.log_end_offset:
            self._lost[followed] = EARLIEST
            return
        log.warning(
            "%s: the leader's log ends at %d and ours at %d: cutting ours, after an unclean election",
            partition.topic_partition,
            offset,
            partition.log.log_end_offset,
        )
        del self._lost[followed]
        self._host.truncate(partition, offset, now_ms)
        self._dirty[followed] = None

    def _leader_begins(self, followed: Followed, offset: int, now_ms: int) -> None:
        partition = followed.partition
        del self._lost[followed]
        if offset > partition.log.log_end_offset:
            log.info("%s: starting anew at the leader's log start %d", partition.topic_partition, offset)
            self._host.start_anew(partition, offset, now_ms)
        self._dirty[followed] = None
