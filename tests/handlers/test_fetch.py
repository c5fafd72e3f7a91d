"""Fetch: limits, long polls, isolation, epochs, ids."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.fetch import FetchRequest, FetchTopic, PartitionData
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.records import records_in
from tests.support.requests import batch, fetch, fetch_partition, metadata, produce
from tests.support.wire_client import WireClient, connected

UNKNOWN_ID = bytes(range(16))
BATCH = batch(b"x" * 300, b"y" * 300)

# Longer than any test: a poll that is answered earlier has been woken.
FOREVER_MS = 60_000


def filled(broker: Broker, wire: WireClient, name: str, partitions: int = 1, batches: int = 3) -> None:
    """A topic with batches of two records in each partition."""
    broker.create_topic(name, partitions)
    for index in range(partitions):
        for _ in range(batches):
            wire.request(produce(name, BATCH, index=index), 9)


def answer_of(wire: WireClient, topic: str, version: int = 12, **options: Any) -> PartitionData:
    """What partition 0 is answered."""
    limits = {
        key: options.pop(key) for key in ("offset", "current_leader_epoch", "last_fetched_epoch") if key in options
    }
    answer: PartitionData = (
        wire.request(fetch(topic, fetch_partition(**limits), **options), version).responses[0].partitions[0]
    )
    return answer


def sizes(answer: Any) -> dict[int, int]:
    """Bytes that each partition was given."""
    return {part.partition_index: len(part.records or b"") for topic in answer.responses for part in topic.partitions}


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(broker: Broker, wire: WireClient, version: int) -> None:
    """Each version of Fetch gives whole batches, from the one that holds the offset."""
    if broker.parts.replicas.topics.get("versions") is None:
        filled(broker, wire, "versions")
    topic_id = wire.request(metadata("versions"), 12).topics[0].topic_id
    for offset, first in ((0, 0), (1, 0), (2, 2), (5, 4)):
        name = topic_id if version >= 13 else "versions"
        data = wire.request(fetch(name, fetch_partition(offset=offset)), version).responses[0].partitions[0]
        assert [one for one, _ in records_in(data.records)] == list(range(first, 6))
        assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 6, 6)


def test_the_first_partition_with_data_yields_one_batch(broker: Broker, wire: WireClient) -> None:
    """However small the limits, one whole batch is given, so that a large batch cannot block a consumer; then the limits bind."""
    filled(broker, wire, "limits", 3)
    order = (2, 0, 1)
    size = len(BATCH)
    for limit in (0, 1, size - 1, size):
        parts = [fetch_partition(index, max_bytes=limit) for index in order]
        assert sizes(wire.request(fetch("limits", *parts, max_bytes=limit), 12)) == {2: size, 0: 0, 1: 0}
    parts = [fetch_partition(index, max_bytes=2 * size) for index in order]
    assert sizes(wire.request(fetch("limits", *parts, max_bytes=3 * size), 12)) == {2: 2 * size, 0: size, 1: 0}
    parts = [fetch_partition(2, offset=6, max_bytes=1), *parts[1:]]
    assert sizes(wire.request(fetch("limits", *parts, max_bytes=1), 12)) == {2: 0, 0: size, 1: 0}


def test_offsets_out_of_range(broker: Broker, wire: WireClient) -> None:
    """Before the start and after the end: an error at once, with no offsets; at the end: nothing, and no error."""
    filled(broker, wire, "range")
    for offset in (-1, 7, 2**62):
        answer = answer_of(wire, "range", offset=offset, max_wait_ms=FOREVER_MS)
        told = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        assert (answer.error_code, told) == (ErrorCode.OFFSET_OUT_OF_RANGE, (-1, -1, -1))
    answer = answer_of(wire, "range", offset=6)
    assert (answer.error_code, answer.high_watermark, answer.records) == (0, 6, b"")


def test_unknown_topics(broker: Broker, wire: WireClient) -> None:
    """A name and an id have codes of their own."""
    filled(broker, wire, "known")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer_of(wire, "nope", max_wait_ms=FOREVER_MS).error_code == unknown
    answer = wire.request(fetch("known", fetch_partition(7), max_wait_ms=FOREVER_MS), 12)
    assert answer.responses[0].partitions[0].error_code == unknown
    answer = wire.request(fetch(UNKNOWN_ID, fetch_partition(), max_wait_ms=FOREVER_MS), 13)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_unknown_topic_beside_a_known_one_does_not_end_the_wait(broker: Broker, wire: WireClient) -> None:
    """Else a consumer that follows a deleted topic would spin."""
    filled(broker, wire, "beside")
    topics = [
        FetchTopic(topic="nope", partitions=[fetch_partition()]),
        FetchTopic(topic="beside", partitions=[fetch_partition(offset=6)]),
    ]
    wire.send(FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1, topics=topics), 12)
    assert wire.is_silent(0.05)
    with connected(broker.bootstrap) as other:
        other.request(produce("beside", BATCH), 9)
    codes = {topic.topic: topic.partitions[0].error_code for topic in wire.receive().responses}
    assert codes == {"nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "beside": 0}


def test_a_poll_is_answered_when_data_comes(broker: Broker, wire: WireClient) -> None:
    """A consumer at the end waits, and the next record wakes it."""
    broker.create_topic("poll")
    wire.send(fetch("poll", fetch_partition(), max_wait_ms=FOREVER_MS), 12)
    assert wire.is_silent(0.05)
    with connected(broker.bootstrap) as other:
        other.request(produce("poll", batch(b"news")), 9)
    assert records_in(wire.receive().responses[0].partitions[0].records) == [(0, b"news")]


def test_a_poll_waits_for_min_bytes(broker: Broker, wire: WireClient) -> None:
    """Data below min_bytes does not end the wait, the batch that reaches it does, and all of it is given."""
    broker.create_topic("minimum")
    wire.send(fetch("minimum", fetch_partition(), max_wait_ms=FOREVER_MS, min_bytes=2 * len(BATCH)), 12)
    with connected(broker.bootstrap) as other:
        other.request(produce("minimum", BATCH), 9)
        assert wire.is_silent(0.05)
        other.request(produce("minimum", BATCH), 9)
    assert sizes(wire.receive()) == {0: 2 * len(BATCH)}


def test_a_poll_ends_after_max_wait(broker: Broker, wire: WireClient) -> None:
    """When nothing comes the answer is empty, not before max_wait_ms and not much later."""
    broker.create_topic("patience")
    begun = time.monotonic()
    assert answer_of(wire, "patience", max_wait_ms=50).records == b""
    assert 0.045 <= time.monotonic() - begun < 2


def test_polls_that_do_not_wait(broker: Broker, wire: WireClient) -> None:
    """No bytes demanded, no time given, or nothing to read: the answer comes at once."""
    broker.create_topic("hasty")
    for options in ({"min_bytes": 0, "max_wait_ms": FOREVER_MS}, {"max_wait_ms": 0}, {"max_wait_ms": -1}):
        assert answer_of(wire, "hasty", **options).records == b""
    assert wire.request(FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1), 12).responses == []


def test_isolation(broker: Broker, wire: WireClient) -> None:
    """Only a consumer of committed records gets a list of aborted transactions, which is empty here."""
    filled(broker, wire, "isolated")
    assert answer_of(wire, "isolated").aborted_transactions is None
    assert answer_of(wire, "isolated", isolation_level=1).aborted_transactions == []


def test_an_open_transaction_holds_committed_readers_back(broker: Broker, wire: WireClient) -> None:
    """Committed readers see nothing past the last stable offset, and a poll of theirs is woken when the transaction ends."""
    broker.create_topic("open")
    assert wire.request(FindCoordinatorRequest(key="holder", key_type=1), 1).error_code == 0
    init = InitProducerIdRequest(transactional_id="holder", transaction_timeout_ms=60_000)
    producer = wire.request(init, 5)
    assert producer.error_code == 0
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    wire.request(
        produce(
            "open",
            batch(b"undecided", base_sequence=0, transactional=True, **identity),
            transactional_id="holder",
            acks=-1,
        ),
        12,
    )
    assert records_in(answer_of(wire, "open").records) == [(0, b"undecided")]
    answer = answer_of(wire, "open", isolation_level=1)
    assert (answer.records, answer.high_watermark, answer.last_stable_offset) == (b"", 1, 0)
    with connected(broker.bootstrap) as other:
        other.send(fetch("open", fetch_partition(), max_wait_ms=FOREVER_MS, isolation_level=1), 12)
        assert other.is_silent(0.05)
        assert wire.request(EndTxnRequest(transactional_id="holder", committed=False, **identity), 5).error_code == 0
        answer = other.receive().responses[0].partitions[0]
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()] == [
        (producer.producer_id, 0)
    ]
    assert (answer.high_watermark, answer.last_stable_offset) == (2, 2)


def test_leader_epochs(broker: Broker, wire: WireClient) -> None:
    """A client from the future is told so, one that does not say its epoch is served."""
    filled(broker, wire, "epochs")
    for epoch, code in ((-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        assert answer_of(wire, "epochs", current_leader_epoch=epoch, max_wait_ms=FOREVER_MS).error_code == code
    answer = answer_of(wire, "epochs", last_fetched_epoch=0, offset=100, max_wait_ms=FOREVER_MS)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 6)


def test_a_stranger_is_no_follower(broker: Broker, wire: WireClient) -> None:
    """A broker that holds no replica may not read as one."""
    filled(broker, wire, "stranger")
    for replica in (2, 99):
        assert answer_of(wire, "stranger", replica_id=replica).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_pipelined_requests_are_answered_in_order(broker: Broker, wire: WireClient) -> None:
    """Answers keep the order of their requests, also behind a poll that waits."""
    broker.create_topic("order")
    wire.send(fetch("order", fetch_partition(), max_wait_ms=FOREVER_MS), 12)
    wire.send(metadata("order"), 12)
    wire.send(produce("order", batch(b"own")), 9)
    wire.send(fetch("order", fetch_partition()), 4)
    assert records_in(wire.receive().responses[0].partitions[0].records) == [(0, b"own")]
    assert wire.receive().topics[0].name == "order"
    assert wire.receive().responses[0].partition_responses[0].base_offset == 0
    assert records_in(wire.receive().responses[0].partitions[0].records) == [(0, b"own")]


def test_a_client_that_leaves_while_it_waits(broker: Broker, wire: WireClient) -> None:
    """A poll whose client is gone is forgotten, and its partition still takes and gives records."""
    broker.create_topic("gone")
    waiting = broker.parts.waiting
    with connected(broker.bootstrap) as other:
        other.send(fetch("gone", fetch_partition(), max_wait_ms=FOREVER_MS), 12)
        other.send(metadata("gone"), 12)
        assert other.is_silent(0.05)
        assert len(waiting) >= 1
    wire.request(produce("gone", batch(b"a")), 9)
    assert records_in(answer_of(wire, "gone").records) == [(0, b"a")]
