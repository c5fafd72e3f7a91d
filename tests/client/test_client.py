"""Finding leaders and the controller, and finding them again."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.client import admin, client
from kafkapy.client.client import error_of, parse_address
from kafkapy.client.connection import Unreachable
from kafkapy.client.offsets import END, FoundOffset, list_offsets, list_offsets_of_all
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kafkapy.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.client.fakes import FakeBroker, FakeCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    monkeypatch.setattr(client.time, "sleep", lambda seconds: None)


def offsets(broker: FakeBroker, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Each leader answers for its own partitions and refuses the others."""
    rows = []
    for row in request.topics[0].partitions:
        right = broker.cluster.leaders[row.partition_index] == broker.node_id
        code = ErrorCode.NONE if right else ErrorCode.NOT_LEADER_OR_FOLLOWER
        rows.append(
            ListOffsetsPartitionResponse(
                partition_index=row.partition_index, error_code=code, offset=100 + row.partition_index
            )
        )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=rows)])


def cluster(*leaders: int) -> FakeCluster:
    """A cluster that answers ListOffsets."""
    found = FakeCluster(*leaders)
    found.handlers[ListOffsetsRequest] = offsets
    return found


def test_each_leader_is_asked_for_its_partitions() -> None:
    """One request each."""
    fake = cluster(1, 2)
    with fake.client() as c:
        found, failed = list_offsets(c, {P0: END, P1: END})
    assert found == {P0: FoundOffset(100, -1, -1), P1: FoundOffset(101, -1, -1)}
    assert failed == {}
    assert sorted(fake.nodes_asked(ListOffsetsRequest)) == [1, 2]


def test_a_leader_that_has_moved_is_found_again() -> None:
    """Metadata is asked anew, and only what was refused is repeated."""
    fake = cluster(1, 2)
    with fake.client() as c:
        list_offsets_of_all(c, {P0: END, P1: END})
        fake.leaders = [1, 3]
        fake.asked.clear()
        assert list_offsets_of_all(c, {P0: END, P1: END}) == {P0: 100, P1: 101}
    assert fake.nodes_asked(ListOffsetsRequest) == [1, 2, 3]


def test_a_broker_that_went_down_is_replaced_by_the_new_leader() -> None:
    """A lost connection is a reason to ask for the leader, too."""
    fake = cluster(1, 2)
    with fake.client() as c:
        list_offsets_of_all(c, {P1: END})
        fake.down = {2}
        fake.leaders = [1, 1]
        assert list_offsets_of_all(c, {P1: END}) == {P1: 101}


def test_another_known_broker_helps_when_the_first_address_is_gone() -> None:
    """The bootstrap list is only where one begins."""
    fake = cluster(2, 2)
    with fake.client() as c:
        c.metadata([])
        fake.down = {1}
        c.any_broker().close()
        assert list_offsets_of_all(c, {P0: END}) == {P0: 100}


def test_what_stays_wrong_is_an_error_when_time_is_over() -> None:
    """The leader's refusal, or that it cannot be reached."""
    fake = cluster(1, 2)
    with fake.client(timeout_s=0.01) as c:
        c.metadata(["t"])
        fake.leaders = [2, -1]
        _, failed = list_offsets(c, {P1: END})
        assert failed[P1].code is ErrorCode.LEADER_NOT_AVAILABLE
    with fake.client(timeout_s=0.01) as c:
        fake.leaders = [2, 2]
        fake.down = {2}
        with pytest.raises(Unreachable, match="broker2"):
            list_offsets(c, {P1: END})


def test_an_error_that_stays_is_not_repeated() -> None:
    """And does not harm the other partitions."""
    fake = cluster(1, 1)

    def answer(broker: FakeBroker, request: ListOffsetsRequest) -> Any:
        found = offsets(broker, request)
        found.topics[0].partitions[1].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return found

    fake.handlers[ListOffsetsRequest] = answer
    with fake.client() as c:
        found, failed = list_offsets(c, {P0: END, P1: END})
    assert list(found) == [P0]
    assert failed[P1].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(fake.nodes_asked(ListOffsetsRequest)) == 1


def test_unknown_topics_and_partitions_are_told_at_once() -> None:
    """There is nothing to wait for."""
    fake = cluster(1, 2)
    with fake.client() as c:
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: topic nope"):
            c.topic("nope")
        with pytest.raises(KafkaError, match="2 partitions, so there is no partition 7"):
            list_offsets(c, {TopicPartition("t", 7): END})


def test_the_controller_is_found_again_when_it_has_moved() -> None:
    """NOT_CONTROLLER is repeated with the new one; other errors are results."""
    fake = FakeCluster(1)

    def create(broker: FakeBroker, request: CreateTopicsRequest) -> CreateTopicsResponse:
        if broker.node_id != 3:
            fake.controller = 3
            code = ErrorCode.NOT_CONTROLLER
        else:
            code = ErrorCode.TOPIC_ALREADY_EXISTS
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code)])

    fake.handlers[CreateTopicsRequest] = create
    with fake.client() as c:
        (result,) = admin.create_topics(c, [admin.NewTopic("t")])
    assert result.error is not None and result.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert fake.nodes_asked(CreateTopicsRequest) == [1, 3]


def test_a_new_topic_is_waited_for() -> None:
    """Until it has its leaders."""
    fake = FakeCluster(-1)
    describe = fake.describe

    def later(request: Any) -> Any:
        if fake.metadata_asked == 3:
            fake.leaders = [1]
        answer = describe(request)
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE if partition.leader_id < 0 else 0
        return answer

    fake.describe = later  # type: ignore[method-assign]
    with fake.client() as c:
        assert [partition.leader_id for partition in c.partitions("t")] == [1]


def test_a_code_that_we_do_not_know_is_told_by_its_number() -> None:
    """Newer brokers have more of them."""
    assert str(error_of(9999, "t-0")) == "UNKNOWN_SERVER_ERROR: t-0: error code 9999"
    assert str(error_of(3, "t-0", "because")) == "UNKNOWN_TOPIC_OR_PARTITION: t-0: because"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9093", ("localhost", 9093)),
        ("localhost", ("localhost", 9092)),
        (" [::1]:9093 ", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
        ("::1", ("::1", 9092)),
        ("PLAINTEXT://a:1", ("a", 1)),
    ],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    """With and without port, IPv6 with and without brackets."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "a:b", "a:0", "a:70000"])
def test_other_addresses_are_refused(text: str) -> None:
    """With what was written."""
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(text)


def test_a_client_needs_an_address() -> None:
    """An empty list reaches nobody."""
    with pytest.raises(Unreachable, match="no bootstrap address"):
        client.Client("").any_broker()
