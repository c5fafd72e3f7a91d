"""Fetch as followers send it: the offsets they ask for are their acknowledgement, and the high watermark rises before they are answered.

    believed      a replica of the partition, in this leader's epoch, from the current incarnation of its broker, whose history is ours up to
                  the offset that it asks for
    otherwise     NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, OFFSET_OUT_OF_RANGE or the epoch at which the histories part

Only positions with news are looked at (replication/follower_session.py), so the cost is that of what changed. A follower that lives in an epoch
that this broker hasn't heard of yet, or follows a partition that it doesn't have yet, waits: the metadata is on its way here too, and an error would
only make the follower pause.

A second request may come before the first is answered, when the follower got more partitions to follow: the first is then answered with what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID
from kafkapy.handlers.wait import Wait
from kafkapy.replication.follower_session import FollowedPosition, FollowerSession, Key
from kafkapy.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.log.partition import Partition
    from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest

# A follower may have heard of an epoch before its leader has: held back for as long as the follower waits anyway.
_NOT_YET = ErrorCode.UNKNOWN_LEADER_EPOCH


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Wait:
    """Take what the follower says about its positions, then answer or wait."""
    by_id = context.api_version >= 15
    replica_id = request.replica_state.replica_id if by_id else request.replica_id
    broker_epoch = request.replica_state.replica_epoch if by_id else -1
    try:
        session = _session(context, request, replica_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = _ReplicaFetch(context, request, session)
    if session.turn is not None and session.waiting:
        session.waiting = False
        context.broker.wake(session)
    session.turn = fetch
    by_id = session.uses_topic_ids
    for forgotten in request.forgotten_topics_data:
        topic: str | bytes = forgotten.topic_id if by_id else forgotten.topic
        for index in forgotten.partitions:
            session.forget((topic, index))
    for asked_topic in request.topics:
        topic = asked_topic.topic_id if by_id else asked_topic.topic
        for asked in asked_topic.partitions:
            _take_position(context, session, (topic, asked.partition), asked, broker_epoch)
    # Nobody would end the watch of a session that is not kept, if its connection broke while it waits.
    final = request.max_wait_ms <= 0 or not session.positions or session.id == INVALID_SESSION_ID
    response = fetch.attempt(final)
    if response is not None:
        return response
    return Wait((session,), context.now_ms + request.max_wait_ms, fetch.attempt)


def _session(context: RequestContext, request: FetchRequest, replica_id: int) -> FollowerSession:
    """The session that the request opens or goes on with; one of its own, that is not kept, for a request without session."""
    broker = context.broker
    by_id = context.api_version >= 13
    eager = bool(broker.config.replica_selector_class)
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        return broker.fetch_sessions.resume_for_follower(request.session_id, request.session_epoch, by_id, replica_id)
    if request.session_id != INVALID_SESSION_ID:
        broker.fetch_sessions.close(request.session_id)
    if request.session_epoch == FINAL_EPOCH:
        return FollowerSession(INVALID_SESSION_ID, replica_id, by_id, context.connection, broker.wake, eager=eager)
    return broker.fetch_sessions.create_for_follower(replica_id, by_id, context.connection, broker.wake, eager=eager)


def _find(context: RequestContext, key: Key) -> Partition | None:
    replicas = context.broker.replicas
    topic, index = key
    found = replicas.topics.get(topic) if topic.__class__ is str else replicas.by_id.get(topic)  # type: ignore[arg-type]
    return found.partitions.get(index) if found is not None else None


def _take_position(
    context: RequestContext, session: FollowerSession, key: Key, asked: FetchPartition, broker_epoch: int
) -> None:
    """Remember where the follower is; if its history is ours up to there, it has what is before."""
    known = session.positions.get(key)
    partition = known.partition if known is not None else None
    if partition is None or not partition.is_leader:
        partition = _find(context, key)
    position = session.follow(key, partition)
    position.fetch_offset = asked.fetch_offset
    position.max_bytes = asked.partition_max_bytes
    if position.log_start_offset != asked.log_start_offset and partition is not None:
        context.broker.wake(partition)  # Somebody may wait for records to be deleted everywhere.
    position.log_start_offset = asked.log_start_offset
    position.current_leader_epoch = asked.current_leader_epoch
    position.last_fetched_epoch = asked.last_fetched_epoch
    if partition is not None:
        _acknowledge(context, session, position, partition, broker_epoch)


def _acknowledge(
    context: RequestContext,
    session: FollowerSession,
    position: FollowedPosition,
    partition: Partition,
    broker_epoch: int,
) -> None:
    """Believe the position if there is no reason not to. What is wrong with it is said when the answer is made."""
    replica_id = session.replica_id
    try:
        partition.check_leader(position.current_leader_epoch)
        if partition.divergence(position.fetch_offset, position.last_fetched_epoch) is not None:
            return
        _check_replica(context, replica_id, broker_epoch, partition)
        partition.note_follower(
            replica_id, position.fetch_offset, position.log_start_offset, context.now_ms, broker_epoch
        )
    except KafkaError:
        return
    except StorageError as error:
        context.broker.storage_failed(error)
        return
    position.verified = True
    if position.fetch_offset == partition.log.log_end_offset:
        # Nothing to send; what else it is to be told travels with the next answer.
        del session.news[position]
        session.quiet[position] = None


def _check_replica(context: RequestContext, replica_id: int, broker_epoch: int, partition: Partition) -> None:
    """Only the partition's replicas are followers, and of those only who was not replaced by a later incarnation."""
    if replica_id not in partition.followers:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} holds no replica of it")
    if broker_epoch >= 0:
        registered = context.broker.image.brokers.get(replica_id)
        if registered is not None and registered.epoch > broker_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} has been started anew")


class _ReplicaFetch:
    """One request of a follower, from its first attempt to its answer."""

    __slots__ = ("_broker_epoch", "_context", "_max_bytes", "_min_bytes", "_request", "_session")

    def __init__(self, context: RequestContext, request: FetchRequest, session: FollowerSession) -> None:
        self._context = context
        self._request = request
        self._session = session
        self._max_bytes = request.max_bytes
        self._min_bytes = request.min_bytes
        self._broker_epoch = request.replica_state.replica_epoch if context.api_version >= 15 else -1

    def attempt(self, final: bool) -> FetchResponse | None:
        """Look at what is new. None while there is nothing to say; never None on the final attempt."""
        session = self._session
        if session.turn is not self:
            return FetchResponse(session_id=session.id)
        room, total, urgent = max(0, self._max_bytes), 0, False
        results: list[tuple[FollowedPosition, PartitionData]] = []
        for position in list(session.news):
            if position.answered:
                continue
            if room <= 0 and total:
                break  # Full: the rest waits for the next request.
            if not position.verified and self._is_believed_now(position):
                continue
            if self._is_held_back(position):
                continue
            data = self._read(position, room, first=not total)
            size = data.records.size if data.records else 0
            total += size
            room -= size
            if not final and (position.partition is None or data.error_code == _NOT_YET):
                continue
            if data.error_code or data.diverging_epoch.epoch >= 0:
                urgent = True
            elif not size:
                if self._has_more(position):
                    continue  # Its next batch is larger than the room that is left.
                urgent = urgent or self._is_worth_an_answer(position, data)
                del session.news[position]
                session.quiet[position] = None
                continue
            results.append((position, data))
        if total < self._min_bytes and not urgent and not final:
            session.waiting = True
            return None
        return self._respond(results)

    def _is_believed_now(self, position: FollowedPosition) -> bool:
        """Look again at a position that was not believed: this broker may have heard of the epoch meanwhile. True: nothing is to be sent for it."""
        context, session = self._context, self._session
        partition = position.partition
        if partition is None or not partition.is_leader:
            partition = _find(context, position.key)
            if partition is not position.partition:
                session.follow(position.key, partition)
        if partition is not None:
            _acknowledge(context, session, position, partition, self._broker_epoch)
        return position not in session.news

    def _is_held_back(self, position: FollowedPosition) -> bool:
        """Whether the throttle makes a replica that is not in sync wait."""
        partition = position.partition
        if partition is None or partition.leader_throttle is None or self._session.replica_id in partition.isr:
            return False
        return partition.leader_throttle.wait_ms(self._context.now_ms) > 0

    def _is_worth_an_answer(self, position: FollowedPosition, data: PartitionData) -> bool:
        """Deleted records shall go everywhere soon; a high watermark is urgent only where followers serve consumers."""
        if position.told_log_start not in (-1, data.log_start_offset):
            return True
        return self._session.eager and position.told_high_watermark != data.high_watermark

    def _has_more(self, position: FollowedPosition) -> bool:
        partition = position.partition
        return partition is not None and position.fetch_offset < partition.log.log_end_offset

    def _read(self, position: FollowedPosition, room: int, *, first: bool) -> PartitionData:
        """One position's part of the answer; its records are not pinned yet."""
        context, session = self._context, self._session
        index = position.key[1]
        partition = position.partition
        if partition is None:
            return PartitionData(
                partition_index=index, error_code=self._why_missing(position.key), high_watermark=-1, records=b""
            )
        try:
            if not position.verified:
                partition.check_leader(position.current_leader_epoch)
                _check_replica(context, session.replica_id, self._broker_epoch, partition)
                if partition.divergence(position.fetch_offset, position.last_fetched_epoch) is None:
                    # Named when this broker did not know yet that it leads: the follower will not name it again, so it counts now.
                    partition.note_follower(
                        session.replica_id,
                        position.fetch_offset,
                        position.log_start_offset,
                        context.now_ms,
                        self._broker_epoch,
                    )
                    position.verified = True
            read = partition.read(
                position.fetch_offset,
                min(position.max_bytes, room),
                min_one_batch=first,
                current_leader_epoch=position.current_leader_epoch,
                last_fetched_epoch=-1 if position.verified else position.last_fetched_epoch,
                replica_id=session.replica_id,
            )
        except KafkaError as error:
            return PartitionData(partition_index=index, error_code=error.code, high_watermark=-1, records=b"")
        except StorageError as error:
            context.broker.storage_failed(error)
            return PartitionData(
                partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR, high_watermark=-1, records=b""
            )
        data = PartitionData(
            partition_index=index,
            high_watermark=read.high_watermark,
            last_stable_offset=read.last_stable_offset,
            log_start_offset=read.log_start_offset,
            records=read.records if read.records.size else b"",
        )
        if read.diverging is not None:
            epoch, end_offset = read.diverging
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return data

    def _why_missing(self, key: Key) -> ErrorCode:
        replicas = self._context.broker.replicas
        topic, index = key
        found = replicas.topics.get(topic) if isinstance(topic, str) else replicas.by_id.get(topic)
        if found is not None:
            return found.missing_partition(index)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(topic, str) else ErrorCode.UNKNOWN_TOPIC_ID

    def _respond(self, results: list[tuple[FollowedPosition, PartitionData]]) -> FetchResponse:
        """The answer; the slices in it are pinned from here until they are sent."""
        session = self._session
        session.waiting = False
        for position in list(session.quiet):
            if position not in session.news and not position.answered:
                results.append((position, self._read(position, 0, first=False)))
        session.quiet.clear()
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for position, data in results:
            if data.records:
                try:
                    data.records = data.records.for_answer()
                except StorageError as error:
                    self._context.broker.storage_failed(error)
                    data.records, data.error_code = b"", ErrorCode.KAFKA_STORAGE_ERROR
            if data.records:
                position.answered = True
                throttle = position.partition.leader_throttle if position.partition is not None else None
                if throttle is not None:
                    throttle.take(len(data.records), self._context.now_ms)
            session.news.pop(position, None)
            told = (data.high_watermark, data.log_start_offset, data.error_code)
            before = (position.told_high_watermark, position.told_log_start, position.told_error)
            if told == before and not data.records and not data.error_code and data.diverging_epoch.epoch < 0:
                continue
            position.told_high_watermark, position.told_log_start, position.told_error = told
            key = position.key[0]
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchableTopicResponse()
                if isinstance(key, str):
                    topic.topic = key
                else:
                    topic.topic_id = key
            topic.partitions.append(data)
        if session.id == INVALID_SESSION_ID:
            session.close()
        return FetchResponse(session_id=session.id, responses=list(topics.values()))
