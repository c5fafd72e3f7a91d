"""Transactions over three brokers: partitions, offsets and the coordinator are led by different ones, and any of them dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.transactions.transaction import Producer
from kafkapy.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.wire.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from kafkapy.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.groups.test_cluster import committed
from tests.support.cluster import Cluster
from tests.support.patient_client import TRANSACTION, PatientClient, codes_of
from tests.support.requests import batch, produce

PARTITIONS = 6
V1 = 9
V2 = 12


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers, of which one may die."""
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[PatientClient]:
    """A client with a topic, whose leaders are spread over all brokers."""
    with PatientClient(cluster) as client:
        client.create_topic("t", PARTITIONS)
        assert {client.leader("t", index) for index in range(PARTITIONS)} == {1, 2, 3}
        yield client


def begin(client: PatientClient, transactional_id: str = "id") -> Producer:
    """The next life of the id."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = client.of_transaction(transactional_id, request, 4)
    assert not answer.error_code
    return Producer(answer.producer_id, answer.producer_epoch)


def write(
    client: PatientClient, producer: Producer, index: int, version: int = V2, sequence: int = 0, name: str = "id"
) -> set[ErrorCode]:
    """One record into one partition."""
    data = batch(b"v", base_sequence=sequence, transactional=True, **producer._asdict())
    request = produce("t", data, index=index, acks=-1, transactional_id=name)
    return codes_of(client.of_partition("t", index, request, version))


def commit_offset(client: PatientClient, producer: Producer, offset: int, version: int) -> set[ErrorCode]:
    """An offset of group g for partition 0, within the transaction."""
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[row])]
    request = TxnOffsetCommitRequest(transactional_id="id", group_id="g", topics=topics, **producer._asdict())
    return codes_of(client.of_group("g", request, version))


def end(client: PatientClient, producer: Producer, *, commit: bool = True, version: int = 5) -> Any:
    """End the transaction; the answer."""
    request = EndTxnRequest(transactional_id="id", committed=commit, **producer._asdict())
    return client.of_transaction("id", request, version)


def following(answer: Any) -> Producer:
    """Who the producer is after the end, which must have gone well."""
    assert not answer.error_code
    return Producer(answer.producer_id, answer.producer_epoch)


def wait_until_complete(client: PatientClient) -> str:
    """The state in which the transaction has come to rest."""
    for _ in range(500):
        answer = client.of_transaction("id", DescribeTransactionsRequest(transactional_ids=["id"]), 0)
        state = str(answer.transaction_states[0].transaction_state)
        if state.startswith("Complete"):
            return state
    raise AssertionError("the transaction does not complete")


def test_a_transaction_over_all_brokers(client: PatientClient) -> None:
    """Partitions join by being written to, wherever they are led; commit shows all of it, abort nothing, with the offsets."""
    producer = begin(client)
    for round_number, commit in enumerate((True, False, True)):
        for index in range(PARTITIONS):
            assert write(client, producer, index) == set()
        assert commit_offset(client, producer, 10 + round_number, 5) == set()
        producer = following(end(client, producer, commit=commit))
        assert wait_until_complete(client) == ("CompleteCommit" if commit else "CompleteAbort")
        assert committed(client, "g") == (10 if round_number < 2 else 12)
    for index in range(PARTITIONS):
        assert len(client.committed_batches("t", index)) == 2


def test_the_older_protocol_over_all_brokers(client: PatientClient) -> None:
    """Announced partitions are let in after a question to the coordinator's broker, others are refused."""
    producer = begin(client)
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1, 2])]
    fields = {"transactional_id": "id", **producer._asdict(), "topics": topics}
    request = AddPartitionsToTxnRequest(**{f"v3_and_below_{key}": value for key, value in fields.items()})
    assert codes_of(client.of_transaction("id", request, 3)) == set()
    for index in range(3):
        assert write(client, producer, index, V1) == set()
    for index in range(3, PARTITIONS):
        assert write(client, producer, index, V1) == {ErrorCode.INVALID_TXN_STATE}
        assert write(client, producer, index, 11) == {ErrorCode.TRANSACTION_ABORTABLE}
    assert commit_offset(client, producer, 3, 4) == {ErrorCode.TRANSACTION_ABORTABLE}
    add_offsets = AddOffsetsToTxnRequest(transactional_id="id", group_id="g", **producer._asdict())
    assert codes_of(client.of_transaction("id", add_offsets, 3)) == set()
    assert commit_offset(client, producer, 3, 4) == set()
    assert not end(client, producer, version=4).error_code
    wait_until_complete(client)
    assert [len(client.committed_batches("t", index)) for index in range(PARTITIONS)] == [1, 1, 1, 0, 0, 0]
    assert committed(client, "g") == 3


@pytest.mark.parametrize("commit", [True, False])
def test_the_coordinator_dies_within_a_transaction(cluster: Cluster, client: PatientClient, commit: bool) -> None:
    """The next coordinator knows the transaction with all its partitions, and ends it as it is told."""
    producer = begin(client)
    for index in range(PARTITIONS):
        assert write(client, producer, index) == set()
    cluster.kill(client.coordinator(TRANSACTION, "id"))
    for index in range(PARTITIONS):
        assert write(client, producer, index, sequence=1) == set()
    assert commit_offset(client, producer, 5, 5) == set()
    following(end(client, producer, commit=commit))
    wait_until_complete(client)
    for index in range(PARTITIONS):
        assert len(client.committed_batches("t", index)) == (2 if commit else 0)
    assert committed(client, "g") == (5 if commit else -1)


def test_a_decision_outlives_the_coordinator(cluster: Cluster, client: PatientClient) -> None:
    """It dies right after it has said yes: the next one writes all markers."""
    producer = begin(client)
    for index in range(PARTITIONS):
        assert write(client, producer, index) == set()
    assert commit_offset(client, producer, 5, 5) == set()
    coordinator = client.coordinator(TRANSACTION, "id")
    # No marker leaves the coordinator's broker before it dies.
    writer = cluster.node(coordinator).transactions._writer
    cluster.call(lambda: setattr(writer, "write_marker", lambda *marker: ErrorCode.LEADER_NOT_AVAILABLE))
    following(end(client, producer))
    cluster.kill(coordinator)
    wait_until_complete(client)
    for index in range(PARTITIONS):
        assert len(client.committed_batches("t", index)) == 1
    assert committed(client, "g") == 5


def test_a_partitions_leader_dies_before_the_markers(cluster: Cluster, client: PatientClient) -> None:
    """Its partitions get their markers from their next leaders, and nothing is seen before."""
    producer = begin(client)
    for index in range(PARTITIONS):
        assert write(client, producer, index) == set()
    coordinator = client.coordinator(TRANSACTION, "id")
    victim = next(node for node in cluster.broker_ids if node != coordinator)
    cluster.kill(victim)
    following(end(client, producer))
    wait_until_complete(client)
    for index in range(PARTITIONS):
        assert len(client.committed_batches("t", index)) == 1


def test_a_zombie_is_fenced_everywhere(cluster: Cluster, client: PatientClient) -> None:
    """After another life has begun the old one writes nothing any more, wherever the partition is led, also after a failover."""
    zombie = begin(client)
    assert write(client, zombie, 0) == set()
    alive = begin(client)
    assert alive.producer_epoch > zombie.producer_epoch
    for index in range(PARTITIONS):
        assert write(client, zombie, index, sequence=1) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert commit_offset(client, zombie, 1, 5) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    cluster.kill(client.coordinator(TRANSACTION, "id"))
    for index in range(PARTITIONS):
        assert write(client, zombie, index, sequence=1) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert end(client, zombie).error_code == ErrorCode.PRODUCER_FENCED
    assert write(client, alive, 0) == set()
    following(end(client, alive))
    wait_until_complete(client)
    assert len(client.committed_batches("t", 0)) == 1
