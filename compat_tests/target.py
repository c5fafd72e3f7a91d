"""The broker under test: started here, or running already."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compat_tests import kafka_broker, kafka_jars
from kafkapy.testing import Broker

# What both brokers are given, so that a difference is a difference of the broker: one node, quick groups, few internal partitions.
CONFIG = {
    "node.id": "1",
    "num.partitions": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
CONSUMER_GROUP_HEARTBEAT = 68


class Target:
    """Where the tests connect, and what they may ask about it."""

    def __init__(self, name: str, bootstrap: str, data_dir: Path | None) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.data_dir = data_dir  # None: not on this machine, or not ours to read
        self._served: set[int] = set()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and come back when clients see it."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([new], operation_timeout=10)[name].result(20)

    def serves(self, api_key: int) -> bool:
        """Whether the broker advertises an API."""
        if not self._served:
            from kafkapy.client.client import Client
            from kafkapy.wire.messages.api_versions import ApiVersionsRequest

            request = ApiVersionsRequest(client_software_name="kafkapy-compat", client_software_version="1")
            with Client(self.bootstrap) as client:
                self._served = {row.api_key for row in client.request(request).api_keys}
        return api_key in self._served

    def require(self, api_key: int, what: str) -> None:
        """Skip, and say so in the matrix, where an API is not served."""
        if not self.serves(api_key):
            pytest.skip(f"{what} (API {api_key}) is not served")


@contextlib.contextmanager
def running(name: str) -> Iterator[Target]:
    """The target of that name, for the length of a with block."""
    if name == "kafkapy":
        with Broker(process=True, config=CONFIG) as broker:
            yield Target(name, broker.bootstrap, Path(broker.data_dir))
    elif name == "kafka":
        kafka_jars.fetch()
        lacking = kafka_broker.missing()
        if lacking is not None:
            raise pytest.UsageError(f"--target=kafka: {lacking}")
        with kafka_broker.KafkaBroker(CONFIG) as kafka:
            yield Target(name, kafka.bootstrap, kafka.root / "data")
    elif ":" in name:
        yield Target(name, name, None)
    else:
        raise pytest.UsageError(f"--target={name}: neither kafkapy, kafka nor HOST:PORT")
