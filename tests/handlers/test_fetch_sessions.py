"""Fetch sessions: only news is told, the client need not repeat itself, and there are only so many."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.fetch_sessions import EPOCH_MAX, EVICT_UNUSED_MS, FetchPosition, FetchSessions
from kafkapy.testing import Broker
from tests.support.requests import batch, fetch, fetch_partition, metadata, produce
from tests.support.wire_client import WireClient


class Consumer:
    """A client that follows three partitions of a topic in a session."""

    def __init__(self, broker: Broker, wire: WireClient, name: str, version: int) -> None:
        broker.create_topic(name, 3)
        self.wire = wire
        self.name = name
        self.version = version
        topic_id = wire.request(metadata(name), 12).topics[0].topic_id
        self._topic = topic_id if version >= 13 else name
        self.epoch = 0
        self.session = 0

    def poll(self, *parts: Any, **options: Any) -> Any:
        """The next request of the session."""
        request = fetch(self._topic, *parts, session_id=self.session, session_epoch=self.epoch, **options)
        answer = self.wire.request(request, self.version)
        self.session = answer.session_id
        self.epoch += 1
        return answer

    def produce(self, index: int) -> None:
        """A record for one partition."""
        self.wire.request(produce(self.name, batch(b"a"), index=index), 9)


def told(answer: Any) -> list[int]:
    """The partitions that an answer speaks of."""
    return [part.partition_index for topic in answer.responses for part in topic.partitions]


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_an_incremental_answer_has_only_news(broker: Broker, wire: WireClient, version: int) -> None:
    """The first answer has every partition, later ones those with records or with a moved watermark."""
    consumer = Consumer(broker, wire, f"news-{version}", version)
    answer = consumer.poll(*(fetch_partition(index) for index in range(3)))
    assert consumer.session > 0 and told(answer) == [0, 1, 2]
    assert told(consumer.poll()) == []
    consumer.produce(1)
    assert told(consumer.poll()) == [1]
    assert told(consumer.poll()) == [1]
    assert told(consumer.poll(fetch_partition(1, offset=1))) == []


def test_forgotten_partitions_are_not_told(broker: Broker, wire: WireClient) -> None:
    """A partition that the client has forgotten is silent until it is named again."""
    consumer = Consumer(broker, wire, "forgotten", 12)
    consumer.poll(*(fetch_partition(index) for index in range(3)))
    assert told(consumer.poll(forget=[0])) == []
    consumer.produce(0)
    consumer.produce(1)
    assert told(consumer.poll()) == [1]
    assert sorted(told(consumer.poll(fetch_partition(0)))) == [0, 1]


def test_a_session_without_partitions_ends(broker: Broker, wire: WireClient) -> None:
    """Forgetting the last partition ends the session, as in Kafka."""
    consumer = Consumer(broker, wire, "emptied", 12)
    consumer.poll(fetch_partition(0))
    session = consumer.session
    assert consumer.poll(forget=[0]).session_id == 0
    consumer.session = session
    assert consumer.poll().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_wrong_sessions_and_epochs(broker: Broker, wire: WireClient) -> None:
    """An unknown session and a wrong epoch are errors of the whole answer; the right epoch still works after them."""
    consumer = Consumer(broker, wire, "wrong", 12)
    consumer.poll(fetch_partition(0))
    session = consumer.session
    consumer.epoch = 7
    answer = consumer.poll()
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    consumer.session, consumer.epoch = session, 1
    assert consumer.poll().error_code == 0
    consumer.session = session ^ 1
    assert consumer.poll().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_closing_a_session(broker: Broker, wire: WireClient) -> None:
    """Epoch -1 closes the session and answers without one."""
    consumer = Consumer(broker, wire, "closed", 12)
    consumer.poll(fetch_partition(0))
    session = consumer.session
    consumer.epoch = -1
    assert consumer.poll(fetch_partition(0)).session_id == 0
    consumer.session, consumer.epoch = session, 1
    assert consumer.poll().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix(broker: Broker, wire: WireClient) -> None:
    """A session that was opened by name cannot go on by id."""
    consumer = Consumer(broker, wire, "mixed", 12)
    consumer.poll(fetch_partition(0))
    consumer.version, consumer._topic = 13, bytes(16)
    assert consumer.poll().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_busy_partitions_take_turns(broker: Broker, wire: WireClient) -> None:
    """When the limit lets one partition through, the next answer begins with another."""
    consumer = Consumer(broker, wire, "turns", 12)
    for index in range(3):
        consumer.produce(index)
    consumer.poll(*(fetch_partition(index, max_bytes=1) for index in range(3)), max_bytes=1)
    turns = []
    for _ in range(6):
        answer = consumer.poll(max_bytes=1)
        turns += [part.partition_index for topic in answer.responses for part in topic.partitions if part.records]
    assert sorted(turns[:3]) == [0, 1, 2] and turns[3:] == turns[:3]


def test_slots_are_limited() -> None:
    """An active session is not evicted, one that was unused for two minutes is; a client without a slot gets none."""
    sessions = FetchSessions(slots=2, first_id=5)
    first, second = sessions.create(False, 0), sessions.create(False, 0)
    assert first is not None and second is not None and first.id != second.id
    assert sessions.create(False, EVICT_UNUSED_MS - 1) is None
    sessions.resume(first.id, 1, False, EVICT_UNUSED_MS - 1)
    third = sessions.create(False, EVICT_UNUSED_MS)
    assert third is not None and len(sessions) == 2
    with pytest.raises(KafkaError):
        sessions.resume(second.id, 1, False, EVICT_UNUSED_MS)
    assert sessions.resume(first.id, 2, False, EVICT_UNUSED_MS) is first
    assert FetchSessions(slots=0, first_id=1).create(False, 0) is None


def test_epochs_wrap_past_zero() -> None:
    """Epoch 0 opens a session, so the one after the largest is 1; ids wrap likewise and skip those in use."""
    sessions = FetchSessions(slots=5, first_id=EPOCH_MAX)
    session = sessions.create(False, 0)
    assert session is not None and session.id == EPOCH_MAX
    session.epoch = EPOCH_MAX
    sessions.resume(session.id, EPOCH_MAX, False, 0)
    assert session.epoch == 1
    following = sessions.create(False, 0)
    assert following is not None and following.id == 1


def test_a_new_position_replaces_the_old_one() -> None:
    """The client's word about a partition is taken over, and what it was last told is kept."""
    sessions = FetchSessions(slots=1, first_id=1)
    session = sessions.create(False, 0)
    assert session is not None
    old, new = FetchPosition("t", bytes(16), 0), FetchPosition("t", bytes(16), 0)
    old.told, new.fetch_offset = (1, 0, 0), 9
    session.update(old)
    session.update(new)
    assert list(session.positions.values()) == [new] and new.told == (1, 0, 0)


def test_a_broker_without_free_slots_serves_without_a_session(wire: WireClient) -> None:
    """The client is told session 0 and goes on with full requests."""
    from tests.support.wire_client import connected

    with (
        Broker(topics={"t": 1}, config={"max.incremental.fetch.session.cache.slots": "0"}) as small,
        connected(small.bootstrap) as client,
    ):
        answer = client.request(fetch("t", fetch_partition(), session_epoch=0), 12)
        assert (answer.error_code, answer.session_id, told(answer)) == (0, 0, [0])
