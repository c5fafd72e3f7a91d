"""One broker for each module of tests, one connection for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkapy.testing import Broker
from tests.support.wire_client import WireClient, connected


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker in a thread; tests use topics of their own."""
    config = {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Broker(config=config) as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[WireClient]:
    """A raw connection to it."""
    with connected(broker.bootstrap) as client:
        yield client
