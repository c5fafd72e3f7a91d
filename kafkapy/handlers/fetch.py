"""Fetch (key 1, v4-18): whole batches from the logs, as slices of segment files that never pass through this process.

Answered at once when min_bytes are there, when a partition has an error or has diverged, or when the client does not wait; otherwise the request is
parked on its partitions and asked again when one of them grows. The first partition with data ignores the byte limits, so that a large batch cannot
block a consumer for ever; after it they bind. Partitions are read in the order of the request, or of the session.

From version 11 on any replica serves consumers, up to its own high watermark. A leader with replica.selector.class sends those who say their rack
to a replica in it (handlers/preferred_replica.py). Followers have a handler of their own (handlers/replica_fetch.py).

v5: log start offset. v7: sessions (KIP-227). v9: leader epochs are checked (KIP-320). v11: rack, preferred replica (KIP-392).
v12: diverging epochs (KIP-595). v13: topic ids (KIP-516). v15: replica state. v16: leader endpoints (KIP-951). v18: high watermark of followers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    FetchPosition,
    FetchSession,
)
from kafkapy.handlers.leader_hints import add_leader_hint, endpoints_of
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkapy.log.partition import Partition, PartitionRead

READ_COMMITTED = 1

# A consumer that follows a topic which is not there must not be answered at once, again and again, for the sake of it alone.
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Wait:
    """Read, then answer at once or wait for more."""
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        from kafkapy.handlers import replica_fetch

        return replica_fetch.handle(context, request)
    try:
        session, positions = _session_and_positions(context, request)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = _Fetch(context, request, session, positions)
    response = fetch.attempt(final=request.max_wait_ms <= 0 or not fetch.positions)
    if response is not None:
        return response
    deadline_ms = context.now_ms + request.max_wait_ms
    return Wait(tuple(fetch.partitions()), deadline_ms, fetch.attempt)


def _session_and_positions(
    context: RequestContext, request: FetchRequest
) -> tuple[FetchSession | None, Iterable[FetchPosition]]:
    """What to read: the request's own partitions, or those of its session after the request has changed it."""
    sessions = context.broker.fetch_sessions
    uses_ids = context.api_version >= 13
    epoch = request.session_epoch
    if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != INVALID_SESSION_ID:
            sessions.close(request.session_id)
        positions = _positions(context, request)
        if epoch == FINAL_EPOCH:
            return None, positions
        session = sessions.create(uses_ids, context.now_ms)
        if session is not None:
            for position in positions:
                session.update(position)
        return session, positions
    session = sessions.resume(request.session_id, epoch, uses_ids, context.now_ms)
    for forgotten in request.forgotten_topics_data:
        topic: str | bytes = forgotten.topic_id if uses_ids else forgotten.topic
        for index in forgotten.partitions:
            session.forget(topic, index)
    for position in _positions(context, request):
        session.update(position)
    if not session.positions:
        sessions.close(session.id)
        return None, ()
    return session, tuple(session.positions.values())


def _positions(context: RequestContext, request: FetchRequest) -> list[FetchPosition]:
    positions = []
    by_id = context.broker.replicas.by_id if context.api_version >= 13 else None
    for topic in request.topics:
        name = topic.topic
        if by_id is not None:
            known = by_id.get(topic.topic_id)
            name = known.name if known is not None else ""
        for asked in topic.partitions:
            position = FetchPosition(name, topic.topic_id, asked.partition)
            position.fetch_offset = asked.fetch_offset
            position.max_bytes = asked.partition_max_bytes
            position.log_start_offset = asked.log_start_offset
            position.current_leader_epoch = asked.current_leader_epoch
            position.last_fetched_epoch = asked.last_fetched_epoch
            positions.append(position)
    return positions


class ReadElsewhere(Exception):
    """A replica nearer to the consumer has the records; it is told what the leader knows, and no records."""

    def __init__(self, replica: int, read: PartitionRead) -> None:
        super().__init__(replica)
        self.replica = replica
        self.read = read


class _Fetch:
    """One Fetch from its first attempt to its answer."""

    __slots__ = ("_any_replica", "_committed_only", "_context", "_rack", "_request", "_session", "positions")

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchSession | None,
        positions: Iterable[FetchPosition],
    ) -> None:
        self._context = context
        self._request = request
        self._session = session
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._any_replica = context.api_version >= 11
        self._rack = request.rack_id if context.broker.config.replica_selector_class else ""
        self.positions = tuple(positions)

    def partitions(self) -> list[Partition]:
        """The local partitions among the positions: what can wake this fetch."""
        found = (self._find(position) for position in self.positions)
        return [partition for partition in found if partition is not None]

    def _find(self, position: FetchPosition) -> Partition | None:
        replicas = self._context.broker.replicas
        by_id = self._context.api_version >= 13
        topic = replicas.by_id.get(position.topic_id) if by_id else replicas.topics.get(position.name)
        return topic.partitions.get(position.index) if topic is not None else None

    def attempt(self, final: bool) -> FetchResponse | None:
        """Read all positions. None when the answer should wait for more bytes; never None on the final attempt."""
        broker_limit: int = self._context.broker.config.fetch_max_bytes
        room = max(0, min(self._request.max_bytes, broker_limit))
        total, urgent, first, readable = 0, False, True, False
        results: list[tuple[FetchPosition, PartitionRead | KafkaError]] = []
        for position in self.positions:
            result: PartitionRead | KafkaError
            try:
                result = self._read(position, room, first)
            except KafkaError as error:
                result = error
                urgent = urgent or error.code not in _NOT_THERE
            except ReadElsewhere as elsewhere:
                results.append((position, elsewhere.read))
                position.preferred = elsewhere.replica
                urgent = True
                continue
            else:
                readable = True
                size = result.records.size
                if size:
                    first = False
                    total += size
                    room = max(0, room - size)
                if result.diverging is not None:
                    urgent = True
            results.append((position, result))
        if total < self._request.min_bytes and readable and not urgent and not final:
            return None
        return self._respond(results)

    def _read(self, position: FetchPosition, room: int, first: bool) -> PartitionRead:
        context = self._context
        partition = self._find(position)
        if partition is None:
            raise KafkaError(self._why_missing(position))
        position.preferred = -1
        try:
            if self._rack and partition.is_leader:
                self._send_elsewhere(partition, position)
            return partition.read(
                position.fetch_offset,
                min(position.max_bytes, room),
                committed_only=self._committed_only,
                min_one_batch=first,
                current_leader_epoch=position.current_leader_epoch,
                last_fetched_epoch=position.last_fetched_epoch,
                from_any_replica=self._any_replica,
            )
        except StorageError as error:
            context.broker.storage_failed(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _send_elsewhere(self, partition: Partition, position: FetchPosition) -> None:
        """Raise ReadElsewhere where a replica in the consumer's rack has what it wants."""
        from kafkapy.handlers.preferred_replica import preferred_replica

        replica = preferred_replica(self._context, partition, position.fetch_offset, self._rack)
        if replica >= 0:
            read = partition.read(position.fetch_offset, 0, min_one_batch=False)
            raise ReadElsewhere(replica, read)

    def _why_missing(self, position: FetchPosition) -> ErrorCode:
        replicas = self._context.broker.replicas
        by_id = self._context.api_version >= 13
        topic = replicas.by_id.get(position.topic_id) if by_id else replicas.topics.get(position.name)
        if topic is not None:
            return topic.missing_partition(position.index)
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _respond(self, results: list[tuple[FetchPosition, PartitionRead | KafkaError]]) -> FetchResponse:
        """The answer; the slices in it are pinned from here until they are sent."""
        session = self._session
        incremental = session is not None and self._request.session_epoch > INITIAL_EPOCH
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        leaders: list[int] = []
        by_id = self._context.api_version >= 13
        for position, result in results:
            data = self._partition_data(position, result)
            told = (data.high_watermark, data.log_start_offset, data.error_code)
            if data.current_leader.leader_id >= 0:
                leaders.append(data.current_leader.leader_id)
            if session is not None:
                has_news = told != position.told or data.records or data.error_code or position.preferred >= 0
                position.told = told
                if data.records and incremental:
                    session.served(position)
                if incremental and not has_news and data.diverging_epoch.epoch < 0:
                    continue
            key: str | bytes = position.topic_id if by_id else position.name
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchableTopicResponse(topic=position.name, topic_id=position.topic_id)
            topic.partitions.append(data)
        response = FetchResponse(
            session_id=session.id if session is not None else INVALID_SESSION_ID, responses=list(topics.values())
        )
        if leaders and self._context.api_version >= 16:
            response.node_endpoints = endpoints_of(self._context, leaders, NodeEndpoint)
        return response

    def _partition_data(self, position: FetchPosition, result: PartitionRead | KafkaError) -> PartitionData:
        if isinstance(result, KafkaError):
            refusal = PartitionData(
                partition_index=position.index,
                error_code=result.code,
                high_watermark=-1,
                aborted_transactions=[] if result.code in _NOT_THERE else None,
                records=b"",
            )
            if self._context.api_version >= 12:
                add_leader_hint(self._context, refusal, position.name, position.index)
            return refusal
        data = PartitionData(
            partition_index=position.index,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=None,
            records=b"",
            preferred_read_replica=position.preferred,
        )
        if result.records.size:
            try:
                data.records = result.records.for_answer()
            except StorageError as error:
                self._context.broker.storage_failed(error)
                return self._partition_data(position, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        if self._committed_only:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in result.aborted
            ]
        if result.diverging is not None:
            epoch, end_offset = result.diverging
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return data
