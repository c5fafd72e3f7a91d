"""The handlers where answers have to wait: for followers, for markers, for the end of the client's patience."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from kafkapy.handlers.replicas import Replicas, TopicReplicas
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.verification import code_for_offset_commit, code_for_produce
from kafkapy.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.list_transactions import ListTransactionsRequest
from kafkapy.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.transactions.fakes import World, ok


class FakePartition:
    """A partition that a marker can be appended to; its high watermark is set by hand."""

    def __init__(self) -> None:
        self.is_leader = True
        self.leader_epoch = 3
        self.high_watermark = 0
        self.end_offset = 0
        self.refuse_with: Exception | None = None

    def append_as_leader(self, batch: bytearray, **options: Any) -> SimpleNamespace:
        """One more batch of one record."""
        if self.refuse_with is not None:
            raise self.refuse_with
        self.end_offset += 1
        return SimpleNamespace(last_offset=self.end_offset - 1)


class FakeGroups:
    """Takes offsets inside of transactions."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, int, bool]] = []
        self.codes: list[ErrorCode] = [ErrorCode.NONE]
        self.commits = 0

    def partition_of(self, group_id: str) -> int:
        """All groups live together."""
        return 0

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """A marker."""
        self.ended.append((partition, producer_id, commit))

    def commit_transactional_offsets(self, *arguments: Any) -> Reply:
        """Answered at once."""
        self.commits += 1
        reply = Reply(lambda key: None)
        reply.give(arguments[-1](self.codes))
        return reply


class FakeBroker:
    """What the handlers see of a broker; its coordinator is real."""

    def __init__(self) -> None:
        self.world = World()
        self.transactions = self.world.coordinator
        self.groups = FakeGroups()
        self.config = SimpleNamespace(request_timeout_ms=30_000, transaction_partition_verification_enable=True)
        self.replicas = Replicas()
        self.partition = FakePartition()
        for name in ("t", "__consumer_offsets"):
            topic = self.replicas.topics[name] = TopicReplicas(name, name.encode().ljust(16), 2)
            topic.partitions[0] = self.partition  # type: ignore[assignment]
        self.woken: list[Any] = []
        self.failed: list[StorageError] = []
        self.wake = self.woken.append
        self.storage_failed = self.failed.append

    def ask(self, handler: Any, request: Any, version: int) -> Any:
        """What the handler answers."""
        connection = SimpleNamespace(client_host="127.0.0.1")
        context = SimpleNamespace(
            broker=self, connection=connection, api_version=version, client_id="c", now_ms=self.world.now_ms
        )
        return handler.handle(context, request)


@pytest.fixture
def broker() -> FakeBroker:
    """One whose followers have not caught up, with a producer that is known to all."""
    return FakeBroker()


@pytest.fixture
def producer(broker: FakeBroker) -> dict[str, Any]:
    """The fields by which requests name the producer."""
    found = broker.world.producer()
    broker.world.log.replicated = False
    return {"transactional_id": "t", "producer_id": found.producer_id, "producer_epoch": found.producer_epoch}


def expired(wait: Any) -> Any:
    """The answer when the time is over."""
    assert isinstance(wait, Wait)
    assert wait.again(False) is None
    return wait.again(True)


def test_requests_that_outlast_the_request_timeout_look_for_the_coordinator_again(
    broker: FakeBroker, producer: dict[str, Any]
) -> None:
    """The followers are too slow; each API has the code where its clients look for it."""
    offsets = broker.ask(add_offsets_to_txn, AddOffsetsToTxnRequest(group_id="g", **producer), 3)
    assert expired(offsets).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    ending = broker.ask(end_txn, EndTxnRequest(committed=True, **producer), 5)
    answer = expired(ending)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert ending.deadline_ms == broker.world.now_ms + 30_000


def partitions_request(producer: dict[str, Any], *, verify_only: bool = False) -> AddPartitionsToTxnRequest:
    """One transaction with t-0, as another broker asks about it."""
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    transaction = AddPartitionsToTxnTransaction(verify_only=verify_only, topics=topics, **producer)
    unknown = AddPartitionsToTxnTransaction(transactional_id="unknown", producer_id=1, producer_epoch=0, topics=topics)
    return AddPartitionsToTxnRequest(transactions=[transaction, unknown])


def codes_of(answer: Any) -> list[int]:
    """The codes of both transactions."""
    return [one.topic_results[0].results_by_partition[0].partition_error_code for one in answer.results_by_transaction]


def test_a_batch_of_transactions_is_answered_when_all_are_decided(broker: FakeBroker, producer: dict[str, Any]) -> None:
    """Or when time is over."""
    adding = broker.ask(add_partitions_to_txn, partitions_request(producer), 5)
    assert adding.again(False) is None
    broker.world.replicate()
    assert adding.keys[0] in broker.woken
    assert codes_of(adding.again(False)) == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    ok(broker.world.add(broker.world.state().producer, ("t", 0)))
    again = broker.ask(add_partitions_to_txn, partitions_request(producer, verify_only=True), 5)
    assert codes_of(again) == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_a_batch_of_transactions_may_be_decided_in_part(broker: FakeBroker, producer: dict[str, Any]) -> None:
    """The rest is told to try again."""
    adding = broker.ask(add_partitions_to_txn, partitions_request(producer), 4)
    assert codes_of(expired(adding)) == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ]


def offsets_request(producer: dict[str, Any]) -> TxnOffsetCommitRequest:
    """t-0, and a partition that does not exist."""
    partitions = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in (0, 9)]
    return TxnOffsetCommitRequest(
        group_id="g", topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)], **producer
    )


def offset_codes(answer: Any) -> list[int]:
    """The codes of both partitions."""
    return [partition.error_code for partition in answer.topics[0].partitions]


def test_offsets_are_committed_in_the_step_in_which_the_transaction_takes_them(
    broker: FakeBroker, producer: dict[str, Any]
) -> None:
    """The partition of the group is added first, and nothing is committed before that is replicated."""
    committing = broker.ask(txn_offset_commit, offsets_request(producer), 5)
    assert committing.again(False) is None
    assert broker.groups.commits == 0
    broker.world.replicate()
    assert broker.groups.commits == 1
    assert offset_codes(committing.again(False)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert ("__consumer_offsets", 0) in broker.world.state().partitions


def test_offsets_that_were_given_up_are_not_committed_later(broker: FakeBroker, producer: dict[str, Any]) -> None:
    """The client was told that they are not."""
    committing = broker.ask(txn_offset_commit, offsets_request(producer), 5)
    assert offset_codes(expired(committing))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.world.replicate()
    assert broker.groups.commits == 0


def test_offsets_can_be_committed_without_asking(broker: FakeBroker, producer: dict[str, Any]) -> None:
    """transaction.partition.verification.enable=false; and old clients do not stop at a group that loads."""
    broker.config.transaction_partition_verification_enable = False
    broker.groups.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    for version, expected in ((1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)):
        assert offset_codes(broker.ask(txn_offset_commit, offsets_request(producer), version))[0] == expected
    request = offsets_request(producer)
    request.topics[0].name = "none"
    assert offset_codes(broker.ask(txn_offset_commit, request, 5)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def marker_request(*topics: str) -> WriteTxnMarkersRequest:
    """An abort of producer 5 in partition 0 of these topics."""
    marked = [WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in topics]
    return WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(producer_id=5, producer_epoch=1, coordinator_epoch=0, topics=marked)]
    )


def marker_codes(answer: Any) -> list[int]:
    """The codes of all topics."""
    return [topic.partitions[0].error_code for topic in answer.markers[0].topics]


def test_a_marker_is_answered_when_it_is_replicated(broker: FakeBroker) -> None:
    """And offsets that were held back count from the marker on."""
    waiting = broker.ask(write_txn_markers, marker_request("__consumer_offsets"), 1)
    assert broker.groups.ended == [(0, 5, False)]
    assert waiting.keys == (broker.partition,) and waiting.again(False) is None
    broker.partition.high_watermark = 1
    assert marker_codes(waiting.again(False)) == [ErrorCode.NONE]


def test_a_marker_may_time_out_or_lose_its_leader(broker: FakeBroker) -> None:
    """The coordinator sends it again."""
    assert marker_codes(expired(broker.ask(write_txn_markers, marker_request("t"), 1))) == [ErrorCode.REQUEST_TIMED_OUT]
    waiting = broker.ask(write_txn_markers, marker_request("t"), 2)
    broker.partition.leader_epoch += 1
    assert marker_codes(waiting.again(False)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_each_partition_refuses_a_marker_for_itself(broker: FakeBroker) -> None:
    """A topic that is not there, a disk that fails, a partition of other brokers."""
    broker.partition.refuse_with = StorageError("/data", "broken")
    answer = broker.ask(write_txn_markers, marker_request("none", "t"), 1)
    assert marker_codes(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR]
    assert broker.failed == [broker.partition.refuse_with]
    broker.partition.refuse_with = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert marker_codes(broker.ask(write_txn_markers, marker_request("t"), 1)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    del broker.replicas.topics["t"].partitions[0]
    assert marker_codes(broker.ask(write_txn_markers, marker_request("t"), 1)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_list_waits_for_no_shard(broker: FakeBroker) -> None:
    """It says that some are loading."""
    broker.transactions.resigned(0, 0)
    broker.transactions.elected(0, 1)
    answer = broker.ask(list_transactions, ListTransactionsRequest(), 0)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("code", "produce", "offset_commit"),
    [
        # Of the coordinator -> Produce 10, 11, 12 -> TxnOffsetCommit 3, 4, 5.
        ("NONE", "NONE NONE NONE", "NONE NONE NONE"),
        ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH " * 3, "INVALID_PRODUCER_EPOCH " * 3),
        (
            "TRANSACTION_ABORTABLE",
            "INVALID_TXN_STATE TRANSACTION_ABORTABLE TRANSACTION_ABORTABLE",
            "INVALID_TXN_STATE TRANSACTION_ABORTABLE TRANSACTION_ABORTABLE",
        ),
        (
            "CONCURRENT_TRANSACTIONS",
            "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS CONCURRENT_TRANSACTIONS",
            "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_LOAD_IN_PROGRESS CONCURRENT_TRANSACTIONS",
        ),
        ("NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS " * 3, "COORDINATOR_LOAD_IN_PROGRESS " * 3),
        ("NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS " * 3, "NOT_COORDINATOR " * 3),
        ("INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING " * 3, "INVALID_PRODUCER_ID_MAPPING " * 3),
    ],
)
def test_what_the_coordinator_says_of_a_partition_in_words_that_clients_know(
    code: str, produce: str, offset_commit: str
) -> None:
    """Older versions get codes that make their clients do the same."""
    found = ErrorCode[code]
    assert [code_for_produce(found, version).name for version in (10, 11, 12)] == produce.split()
    assert [code_for_offset_commit(found, version).name for version in (3, 4, 5)] == offset_commit.split()
