"""One broker for all tests of the command line, and a fresh look at it for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkapy.testing.broker import Broker
from tests.cli.runner import Result, run


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """Up for the whole session; its topics come and go."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """A broker without topics."""
    from kafkapy.client.admin import delete_topics

    with shared_broker.client() as client:
        names = [topic.name for topic in client.metadata().topics if topic.name and not topic.is_internal]
        if names:
            assert all(result.error is None for result in delete_topics(client, names))
    return shared_broker


@pytest.fixture
def kafkapy(broker: Broker) -> Callable[..., Result]:
    """Run a command against the broker."""

    def call(*args: str, **options: Any) -> Result:
        env = {"KAFKAPY_BOOTSTRAP": broker.bootstrap, **options.pop("env", {})}
        return run(*args, env=env, **options)

    return call
