"""Looking at transactions and ending those that hang: ListTransactions, DescribeTransactions, DescribeProducers, WriteTxnMarkers.

Every broker coordinates some of the transactional ids, so all of them are asked. A transaction *hangs* when a partition has it open but no
coordinator will ever end it there. It holds back everybody who reads committed records, until somebody aborts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from kafkapy.client.client import Client, error_of
from kafkapy.client.offsets import by_topic
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkapy.wire.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.wire.messages.list_transactions import ListTransactionsRequest
from kafkapy.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

R = TypeVar("R")

NO_OFFSET = -1

# States in which a coordinator still has markers to write or an end to wait for.
_UNFINISHED = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})

# Producer ids in one filter of ListTransactions, so that a request stays small.
_FILTER_MAX = 1000


class Listed(NamedTuple):
    """A transactional id and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Described(NamedTuple):
    """The open or last transaction of a transactional id."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int  # -1: none was begun
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """A producer that a partition remembers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int  # of its open transaction; -1: it has none


class Open(NamedTuple):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer: ActiveProducer


def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[Listed]:
    """All that match every filter, by name. ValueError names states that no broker knows."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    found: list[Listed] = []
    for node in _nodes(client):
        answer = _ask_until_loaded(client, request, node, lambda answer: [answer.error_code])
        if answer.error_code:
            raise error_of(answer.error_code, "transactions")
        if answer.unknown_state_filters:
            raise ValueError(f"no such state: {', '.join(answer.unknown_state_filters)}")
        found += [
            Listed(one.transactional_id, node, one.producer_id, one.transaction_state)
            for one in answer.transaction_states
        ]
    return sorted(found)


def describe_transactions(client: Client, transactional_ids: Sequence[str]) -> dict[str, Described | KafkaError]:
    """Each id's transaction, or why there is none to show."""
    results: dict[str, Described | KafkaError] = {}
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    for node in _nodes(client):
        answer = _ask_until_loaded(
            client, request, node, lambda answer: [one.error_code for one in answer.transaction_states]
        )
        for one in answer.transaction_states:
            name = one.transactional_id
            if one.error_code == ErrorCode.NOT_COORDINATOR:
                continue
            if one.error_code:
                results[name] = error_of(one.error_code, f"transactional id {name!r}")
                continue
            partitions = tuple(
                TopicPartition(topic.topic, index) for topic in one.topics for index in sorted(topic.partitions)
            )
            results[name] = Described(
                name,
                node,
                one.producer_id,
                one.producer_epoch,
                one.transaction_state,
                one.transaction_timeout_ms,
                one.transaction_start_time_ms,
                tuple(sorted(partitions)),
            )
    # Without any coordinator there is no __transaction_state, so nobody has ever used a transactional id.
    missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return {name: results.get(name, error_of(missing, f"transactional id {name!r}")) for name in transactional_ids}


def describe_producers(
    client: Client, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, list[ActiveProducer]], dict[TopicPartition, KafkaError]]:
    """The producers that each partition's leader remembers; and the partitions that have failed."""

    def build(asked: list[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                TopicRequest(name=name, partition_indexes=[item.partition for item in items])
                for name, items in by_topic(asked)
            ]
        )

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, list[ActiveProducer]]]:
        for topic in answer.topics:
            for row in topic.partitions:
                producers = [
                    ActiveProducer(
                        one.producer_id,
                        one.producer_epoch,
                        one.last_sequence,
                        one.last_timestamp,
                        one.coordinator_epoch,
                        one.current_txn_start_offset,
                    )
                    for one in row.active_producers
                ]
                yield TopicPartition(topic.name, row.partition_index), row.error_code, producers

    return client.on_leaders(partitions, build, read)


def open_transactions(client: Client, partitions: Iterable[TopicPartition]) -> list[Open]:
    """What is open in these partitions, the first failure as an exception."""
    found, failed = describe_producers(client, partitions)
    for error in failed.values():
        raise error
    return [
        Open(partition, producer)
        for partition in sorted(found)
        for producer in sorted(found[partition])
        if producer.start_offset != NO_OFFSET
    ]


def hanging_transactions(client: Client, partitions: Iterable[TopicPartition], silent_since_ms: int) -> list[Open]:
    """Those that are open, have written nothing since then, and that no coordinator will end.

    A coordinator ends what its own record names: the producer with at least that epoch, in a state that is not over, and with that partition.
    """
    suspects = [
        one for one in open_transactions(client, partitions) if one.producer.last_timestamp_ms <= silent_since_ms
    ]
    ids = sorted({one.producer.producer_id for one in suspects})
    listed = [
        found
        for start in range(0, len(ids), _FILTER_MAX)
        for found in list_transactions(client, producer_ids=ids[start : start + _FILTER_MAX])
    ]
    described = describe_transactions(client, [one.transactional_id for one in listed]).values()
    by_producer = {one.producer_id: one for one in described if isinstance(one, Described)}
    return [one for one in suspects if not _will_be_ended(one, by_producer.get(one.producer.producer_id))]


def _will_be_ended(one: Open, described: Described | None) -> bool:
    return (
        described is not None
        and described.state in _UNFINISHED
        and described.producer_epoch >= one.producer.producer_epoch
        and one.partition in described.partitions
    )


def abort_transaction(client: Client, one: Open) -> None:
    """Write the marker that ends a transaction in one partition; it does not ask the coordinator."""
    partition, producer = one

    def build(asked: list[TopicPartition]) -> WriteTxnMarkersRequest:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            # A partition that no coordinator has marked yet has -1, which no marker may carry.
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, None]]:
        for marker in answer.markers:
            for topic in marker.topics:
                for row in topic.partitions:
                    yield TopicPartition(topic.name, row.partition_index), row.error_code, None

    _, failed = client.on_leaders([partition], build, read)
    for error in failed.values():
        raise error


def _nodes(client: Client) -> list[int]:
    return sorted(broker.node_id for broker in client.metadata([]).brokers)


def _ask_until_loaded(client: Client, request: Any, node: int, codes: Any) -> Any:
    """Ask one broker, again if it has just become a coordinator and is still reading its log."""
    for is_last in client.attempts():
        answer = client.request(request, node=node)
        if is_last or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS not in codes(answer):
            return answer
    raise AssertionError("the last attempt returns")
