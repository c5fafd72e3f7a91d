"""TxnOffsetCommit (key 28, v0-5): offsets that count only if the transaction commits.

The partition of `__consumer_offsets` that keeps the group takes part in the transaction like any other. Until v4 the client has added it with
AddOffsetsToTxn, and the transaction coordinator is asked whether that is so; from v5 on it is added here. A partition that does not exist
is refused with UNKNOWN_TOPIC_OR_PARTITION; the others are committed all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode
from kafkapy.groups.commits import Commit
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import caller
from kafkapy.handlers.transaction_replies import answer
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.transaction import Producer
from kafkapy.transactions.verification import OFFSET_COMMIT_ADDS_VERSION, code_for_offset_commit
from kafkapy.types import OFFSETS_TOPIC
from kafkapy.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

# Older clients stop at COORDINATOR_LOAD_IN_PROGRESS instead of trying again (KAFKA-7296).
LOADING_VERSION = 2

Respond = Callable[[list[ErrorCode]], TxnOffsetCommitResponse]


def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | Wait:
    """Make sure that the transaction includes the group's partition, then commit."""
    commits, known = _check_partitions(context, request)

    def respond(codes: list[ErrorCode]) -> TxnOffsetCommitResponse:
        decided = iter(codes)
        return _respond(context.api_version, request, [next(decided) if code is None else code for code in known])

    if not commits:
        return respond([])
    return _Commit(context, request, commits, respond).start()


class _Commit:
    """One request on its way: first to the transaction coordinator, then to the group coordinator."""

    def __init__(
        self, context: RequestContext, request: TxnOffsetCommitRequest, commits: list[Commit], respond: Respond
    ) -> None:
        self.context = context
        self.request = request
        self.commits = commits
        self.respond = respond
        self.reply = Reply(context.broker.wake)
        self.given_up = False

    def start(self) -> TxnOffsetCommitResponse | Wait:
        """Check or add the group's partition; what follows happens in the same step in which that is known."""
        context, request = self.context, self.request
        broker = context.broker
        adds = context.api_version >= OFFSET_COMMIT_ADDS_VERSION
        if adds or broker.config.transaction_partition_verification_enable:
            partition = (OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
            broker.transactions.verify_or_add_anywhere(
                request.transactional_id,
                Producer(request.producer_id, request.producer_epoch),
                frozenset({partition}),
                context.now_ms,
                lambda codes: self._checked(codes[partition]),
                add=adds,
            )
        else:
            self._checked(ErrorCode.NONE)
        response: TxnOffsetCommitResponse | Wait = answer(context, self.reply, self._expired)
        return response

    def _checked(self, code: ErrorCode) -> None:
        request = self.request
        if self.given_up:
            return
        if code:
            code = code_for_offset_commit(code, self.context.api_version)
            self.reply.give(self.respond([code] * len(self.commits)))
            return
        self.context.broker.groups.commit_transactional_offsets(
            caller(self.context),
            request.group_id,
            (request.member_id, request.group_instance_id, request.generation_id),
            Producer(request.producer_id, request.producer_epoch),
            self.commits,
            self._committed,
        )

    def _committed(self, codes: list[ErrorCode]) -> TxnOffsetCommitResponse:
        response = self.respond(codes)
        self.reply.give(response)
        return response

    def _expired(self, code: ErrorCode) -> TxnOffsetCommitResponse:
        self.given_up = True
        return self.respond([code] * len(self.commits))


def _check_partitions(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> tuple[list[Commit], list[ErrorCode | None]]:
    """The commits of partitions that exist, and for each partition a code, or None for the coordinator to say."""
    commits: list[Commit] = []
    known: list[ErrorCode | None] = []
    for topic in request.topics:
        found = context.broker.replicas.topics.get(topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            if found is None or not 0 <= index < found.partition_count:
                known.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            known.append(None)
            commits.append(
                Commit(
                    topic.name,
                    found.topic_id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
            )
    return commits, known


def _respond(version: int, request: TxnOffsetCommitRequest, codes: list[ErrorCode]) -> TxnOffsetCommitResponse:
    remaining = iter(codes)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            code = next(remaining)
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)
