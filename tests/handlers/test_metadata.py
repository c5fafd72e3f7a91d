"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions: what a client learns first."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import kafkapy.handlers
from kafkapy.errors import ErrorCode
from kafkapy.handlers import CONTROLLER_SERVED, SERVED
from kafkapy.testing import Broker
from kafkapy.types import ZERO_UUID
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.wire.messages.describe_cluster import DescribeClusterRequest
from kafkapy.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kafkapy.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.requests import metadata
from tests.support.wire_client import WireClient, connected, frame, header

UNKNOWN_ID = bytes(range(16))


def test_everything_that_has_a_handler_is_served() -> None:
    """SERVED and CONTROLLER_SERVED name exactly the modules of handlers/ that belong to an API."""
    modules = {path.stem for path in Path(kafkapy.handlers.__file__).parent.glob("*.py")}
    assert {key for key, api in API_BY_KEY.items() if api.module_name in modules} == SERVED | CONTROLLER_SERVED


@pytest.mark.parametrize("version", range(5))
def test_api_versions(wire: WireClient, version: int) -> None:
    """Every version tells exactly what is served, with the ranges of Apache Kafka."""
    names = {"client_software_name": "test", "client_software_version": "1.0"} if version >= 3 else {}
    answer = wire.request(ApiVersionsRequest(**names), version)
    rows = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert rows == {key: (API_BY_KEY[key].advertised.first, API_BY_KEY[key].advertised.last) for key in SERVED}
    assert rows[0][0] == 0, "librdkafka takes a broker without Produce 0 for one that is too old"
    if version >= 3:
        finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert finalized["metadata.version"] >= 7 and answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_from_the_future(wire: WireClient, version: int) -> None:
    """A version that is not known is answered in version 0, with the range of ApiVersions alone, whatever follows."""
    wire.send_bytes(frame(header(18, version, 7) + b"\xff\xfe"))
    body = wire.receive_frame()
    assert struct.unpack(">ih", body[:6]) == (7, ErrorCode.UNSUPPORTED_VERSION)
    answer = ApiVersionsResponse.decode(body[4:], 0)
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
    assert wire.request(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize(("name", "valid"), [("a", True), ("a.b-c", True), ("", False), ("-a", False), ("a b", False)])
def test_software_names(wire: WireClient, name: str, valid: bool) -> None:
    """An invalid name of the client's software is refused, in the version that was asked in."""
    answer = wire.request(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert (answer.error_code == 0) == valid
    assert bool(answer.api_keys) == valid


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata(broker: Broker, wire: WireClient, version: int) -> None:
    """Brokers, leaders and replicas are told in every version, ids and epochs from theirs on."""
    if broker.parts.replicas.topics.get("known") is None:
        broker.create_topic("known", 3)
    answer = wire.request(metadata("known", create=version < 4), version)
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", broker.port)]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, [one.partition_index for one in topic.partitions]) == (0, "known", [0, 1, 2])
    for partition in topic.partitions:
        assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert (topic.topic_id != ZERO_UUID) == (version >= 10)


def test_all_and_none(broker: Broker, wire: WireClient) -> None:
    """Null asks for all topics and empty for none; version 0 has no null, so empty is all."""
    broker.create_topic("one-of-all")
    for version in (1, 9, 13):
        request = MetadataRequest(topics=None)
        assert "one-of-all" in [topic.name for topic in wire.request(request, version).topics]
        assert wire.request(MetadataRequest(topics=[]), version).topics == []
    assert "one-of-all" in [topic.name for topic in wire.request(MetadataRequest(topics=[]), 0).topics]


@pytest.mark.parametrize("version", [0, 4, 9, 13])
def test_naming_a_topic_may_create_it(wire: WireClient, version: int) -> None:
    """The first answer has the topic already, with its leaders."""
    (topic,) = wire.request(metadata(f"made-{version}", create=True), version).topics
    assert topic.error_code == 0 and [one.leader_id for one in topic.partitions] == [1]


def test_a_topic_is_not_created_against_anybodys_will() -> None:
    """Neither when the client forbids it nor when the broker does."""
    with Broker(config={"auto.create.topics.enable": "false"}) as broker, connected(broker.bootstrap) as wire:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert wire.request(metadata("unwanted", create=True), 9).topics[0].error_code == unknown


def test_names(wire: WireClient) -> None:
    """What is not there and what cannot be have codes of their own."""
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    names = {"nope": unknown, "a b": invalid, "": invalid, "..": invalid, "a" * 249: unknown, "a" * 250: invalid}
    answer = wire.request(metadata(*names), 12)
    assert {topic.name: topic.error_code for topic in answer.topics} == names
    answer = wire.request(metadata("a b", create=True), 12)
    assert answer.topics[0].error_code == invalid


@pytest.mark.parametrize("version", [12, 13])
def test_asking_by_id(broker: Broker, wire: WireClient, version: int) -> None:
    """From version 12 on an id is enough; where both are given the id counts."""
    name = f"by-id-{version}"
    broker.create_topic(name)
    topic_id = wire.request(metadata(name), version).topics[0].topic_id

    def ask(**topic: object) -> tuple[int, str | None]:
        request = MetadataRequest(topics=[MetadataRequestTopic(**topic)], allow_auto_topic_creation=False)
        (answer,) = wire.request(request, version).topics
        return answer.error_code, answer.name

    assert ask(topic_id=topic_id, name=None) == (0, name)
    assert ask(topic_id=topic_id, name="other") == (0, name)
    assert ask(topic_id=UNKNOWN_ID, name=None) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    assert ask(name=None)[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [10, 11])
def test_ids_came_into_answers_before_requests(wire: WireClient, version: int) -> None:
    """Versions 10 and 11 have a field for the id but refuse it, and the broker survives being asked."""
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)])
    (answer,) = wire.request(request, version).topics
    assert (answer.error_code, answer.name) == (ErrorCode.INVALID_REQUEST, "")


def test_the_address_is_the_one_that_was_reached() -> None:
    """Without advertised.listeners each client is told the address at which it came in; with it, that."""
    with Broker(config={"listeners": "PLAINTEXT://0.0.0.0:0"}) as broker:
        for host in ("127.0.0.1", "127.0.0.2"):
            with WireClient(host, broker.port) as wire:
                assert [(one.host, one.port) for one in wire.request(metadata(), 9).brokers] == [(host, broker.port)]
    config = {"advertised.listeners": "PLAINTEXT://kafka.example:9999"}
    with Broker(config=config) as broker, connected(broker.bootstrap) as wire:
        assert [(one.host, one.port) for one in wire.request(metadata(), 9).brokers] == [("kafka.example", 9999)]


def test_operations_are_told_when_asked_for(broker: Broker, wire: WireClient) -> None:
    """Without an authorizer everything is allowed; not asked is a value of its own."""
    broker.create_topic("allowed")
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="allowed")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = wire.request(asked, 9)
    assert answer.cluster_authorized_operations > 0 and answer.topics[0].topic_authorized_operations > 0
    answer = wire.request(metadata("allowed"), 9)
    assert answer.cluster_authorized_operations == answer.topics[0].topic_authorized_operations == -(2**31)


def test_describe_cluster(broker: Broker, wire: WireClient) -> None:
    """Every version names the brokers; a broker does not answer for controllers."""
    for version in range(3):
        answer = wire.request(DescribeClusterRequest(), version)
        assert len(answer.cluster_id) == 22 and answer.controller_id == 1
        assert [(one.broker_id, one.port) for one in answer.brokers] == [(1, broker.port)]
    code = wire.request(DescribeClusterRequest(endpoint_type=2), 1).error_code
    assert code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_topics_page_by_page(broker: Broker, wire: WireClient) -> None:
    """Pages hold as many partitions as were asked for, and each says where the next one begins."""
    for name, partitions in (("page-a", 3), ("page-b", 1), ("page-c", 2)):
        broker.create_topic(name, partitions)
    names = [TopicRequest(name=name) for name in ("page-c", "page-a", "page-b")]
    for limit in (1, 2, 3, 4, 5, 6, 100):
        found: list[tuple[str, int]] = []
        cursor = None
        while True:
            request = DescribeTopicPartitionsRequest(topics=names, response_partition_limit=limit, cursor=cursor)
            answer = wire.request(request, 0)
            page = [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
            assert 0 < len(page) <= limit
            found += page
            if answer.next_cursor is None:
                break
            cursor = Cursor(
                topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
            )
        assert found == [("page-a", 0), ("page-a", 1), ("page-a", 2), ("page-b", 0), ("page-c", 0), ("page-c", 1)]


def test_a_cursor_must_belong_to_the_topics(wire: WireClient) -> None:
    """A cursor to a topic that was not asked for, or to a negative partition, is refused."""
    names = [TopicRequest(name="page-a")]
    for cursor in (Cursor(topic_name="page-b", partition_index=0), Cursor(topic_name="page-a", partition_index=-1)):
        request = DescribeTopicPartitionsRequest(topics=names, response_partition_limit=9, cursor=cursor)
        assert {topic.error_code for topic in wire.request(request, 0).topics} == {ErrorCode.INVALID_REQUEST}
