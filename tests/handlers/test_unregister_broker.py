"""UnregisterBroker: an unknown broker is refused; one that is removed is gone until it starts again."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.wire.messages.describe_cluster import DescribeClusterRequest
from kafkapy.wire.messages.metadata import MetadataRequest
from kafkapy.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.wire_client import WireClient, connected


def leaders(wire: WireClient) -> list[int]:
    answer = wire.request(MetadataRequest(topics=None), 9)
    return [partition.leader_id for topic in answer.topics for partition in topic.partitions]


def test_unknown(wire: WireClient) -> None:
    """Nobody has registered that id."""
    answer = wire.request(UnregisterBrokerRequest(broker_id=77), 0)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert answer.error_message == "Broker ID 77 is not currently registered"


def test_the_broker_itself() -> None:
    """As with Apache Kafka it is gone and its partitions have no leader; started again it leads them as before."""
    with Broker() as broker:
        broker.create_topic("left", partitions=2)
        with connected(broker.bootstrap) as wire:
            (node,) = wire.request(DescribeClusterRequest(), 0).brokers
            answer = wire.request(UnregisterBrokerRequest(broker_id=node.broker_id), 0)
            assert (answer.error_code, answer.error_message) == (0, "")
            assert wire.request(DescribeClusterRequest(), 0).brokers == []
            assert leaders(wire) == [-1, -1]
        broker.restart()
        with connected(broker.bootstrap) as wire:
            assert leaders(wire) == [node.broker_id] * 2
