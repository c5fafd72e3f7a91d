"""A whole broker, asked in raw requests of many versions: it answers as Apache Kafka 4.3.1 does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.testing import Broker
from tests.support.wire_client import WireClient
from tests.transactions.conversations import CONVERSATIONS
from tests.transactions.talk import Talk

KAFKA_ANSWERS: dict[str, list[str]] = json.loads(Path(__file__).with_name("kafka_answers.json").read_text())

# Where we mean to answer otherwise: (conversation, number of the answer) -> ours.
DIFFERENT = {
    # The abort was the coordinator's; a Streams thread survives being fenced, but not INVALID_TXN_STATE (KAFKA-20785, fixed after 4.3).
    ("v2_life", 19): "commit v5 PRODUCER_FENCED - -1",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for all conversations; it looks for transactions that timed out all the time."""
    config = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
    }
    with Broker(config=config) as running:
        yield running


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.slow
def test_the_broker_answers_as_kafka_does(broker: Broker, name: str) -> None:
    """Word for word, but for what DIFFERENT explains."""
    expected = list(KAFKA_ANSWERS[name])
    for (conversation, number), ours in DIFFERENT.items():
        if conversation == name:
            assert expected[number] != ours
            expected[number] = ours
    with WireClient("127.0.0.1", broker.port) as wire:
        talk = Talk(wire, name)
        CONVERSATIONS[name](talk)
    assert talk.said == expected
