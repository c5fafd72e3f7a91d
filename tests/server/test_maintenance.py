"""The walk over all partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.server.maintenance import in_slices


def test_a_partition_that_cannot_be_opened_does_not_end_the_walk() -> None:
    """Neither where its disk fails nor where its folder belongs to another topic."""
    errors = [StorageError("/data/t-0", "gone"), KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "another topic"), None]
    partitions: list[Any] = [SimpleNamespace(opened=None, topic_partition=f"t-{number}") for number in range(3)]
    visited: list[Any] = []
    failed: list[Any] = []

    def visit(partition: Any) -> None:
        visited.append(partition)
        error = errors[len(visited) - 1]
        if error is not None:
            raise error

    trio.run(in_slices, partitions, visit, lambda partition, error: failed.append(partition))
    assert visited == partitions and failed == partitions[:1]
