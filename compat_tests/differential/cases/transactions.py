"""Producer ids and transactions."""

from __future__ import annotations

import time

from compat_tests.differential.cases import case
from compat_tests.differential.cases.groups import ready
from compat_tests.differential.probe import Probe
from kafkapy.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkapy.wire.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from kafkapy.wire.messages.list_transactions import ListTransactionsRequest
from kafkapy.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.requests import batch, fetch, fetch_partition, list_offsets, produce


def transactions_ready(probe: Probe) -> None:
    for _ in range(100):
        if not probe.quietly(FindCoordinatorRequest(key="any", key_type=1), 1).error_code:
            probe.topic_id("__transaction_state")
            if not probe.quietly(
                InitProducerIdRequest(transactional_id="any", transaction_timeout_ms=1000), 4
            ).error_code:
                return
        time.sleep(0.1)
    raise AssertionError("no transaction coordinator")


@case
def init_producer_id(probe: Probe) -> None:
    transactions_ready(probe)
    probe.ask_all(
        "idempotent", lambda version: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    )
    probe.ask_all(
        "transactional",
        lambda version: InitProducerIdRequest(transactional_id=f"ip-{version}", transaction_timeout_ms=1000),
    )
    probe.ask_all(
        "again", lambda version: InitProducerIdRequest(transactional_id=f"ip-{version}", transaction_timeout_ms=1000)
    )
    for version in (0, 3, 5):
        probe.ask("empty id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), version)
        probe.ask("no timeout", InitProducerIdRequest(transactional_id="ip-t", transaction_timeout_ms=0), version)
        probe.ask(
            "negative timeout", InitProducerIdRequest(transactional_id="ip-t", transaction_timeout_ms=-1), version
        )
        probe.ask(
            "long timeout", InitProducerIdRequest(transactional_id="ip-t", transaction_timeout_ms=900_001), version
        )
        probe.ask(
            "idempotent with a negative timeout",
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1),
            version,
        )
    for version in (3, 4, 5):
        for producer, epoch in ((5, -1), (-1, 5), (999_999, 0)):
            request = InitProducerIdRequest(
                transactional_id="ip-5", transaction_timeout_ms=1000, producer_id=producer, producer_epoch=epoch
            )
            probe.ask(f"claims {producer} {epoch}", request, version)


def open_producer(probe: Probe, name: str) -> dict[str, int]:
    answer = probe.quietly(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
    assert not answer.error_code, answer
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


@case
def transactions_of_version_1(probe: Probe) -> None:
    transactions_ready(probe)
    ready(probe)
    probe.create_topic("t1", 2)
    for version in range(5):
        name = f"t1-{version}"
        who = open_producer(probe, name)

        identity = {"transactional_id": name, **who}

        def add(
            label: str,
            topic: str = "t1",
            index: int = 0,
            version: int = version,
            identity: dict[str, object] = identity,
            **changes: object,
        ) -> None:
            given = {**identity, **changes}
            topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index])]
            fields = {f"v3_and_below_{key}": value for key, value in given.items()}
            probe.ask(label, AddPartitionsToTxnRequest(v3_and_below_topics=topics, **fields), min(version, 3))

        add("unknown topic", "t1-nope")
        add("unknown partition", index=9)
        add("unknown id", transactional_id="t1-unknown")
        add("wrong producer", producer_id=who["producer_id"] + 1000)
        add("old epoch", producer_epoch=who["producer_epoch"] - 1)
        add("new epoch", producer_epoch=who["producer_epoch"] + 1)
        add("good")
        add("again")
        data = batch(b"a", b"b", base_sequence=0, transactional=True, **who)
        probe.ask("produce", produce("t1", data, acks=-1, transactional_id=name), 9)
        other = batch(b"a", base_sequence=0, transactional=True, **who)
        probe.ask("produce to what was not added", produce("t1", other, index=1, acks=-1, transactional_id=name), 9)
        plain = batch(b"a", base_sequence=2, **who)
        probe.ask("produce without the transaction", produce("t1", plain, acks=-1), 9)
        probe.ask("end of stable", list_offsets("t1", -1, isolation=1), 5)
        probe.ask("add offsets", AddOffsetsToTxnRequest(transactional_id=name, group_id="t1-group", **who), version)
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        topics = [TxnOffsetCommitRequestTopic(name="t1", partitions=[part])]
        probe.ask(
            "commit offsets",
            TxnOffsetCommitRequest(transactional_id=name, group_id="t1-group", topics=topics, **who),
            version,
        )
        probe.ask(
            "describe", DescribeTransactionsRequest(transactional_ids=[name, "t1-unknown", ""]), 0
        ) if not version else None
        committed = version % 2 == 0
        probe.ask("end", EndTxnRequest(transactional_id=name, committed=committed, **who), version)
        time.sleep(0.3)
        probe.ask("end again", EndTxnRequest(transactional_id=name, committed=committed, **who), version)
        probe.ask("end the other way", EndTxnRequest(transactional_id=name, committed=not committed, **who), version)
        probe.ask("end unknown", EndTxnRequest(transactional_id="t1-unknown", committed=True, **who), version)
        probe.ask("end of stable after", list_offsets("t1", -1, isolation=1), 5)
    probe.ask("what is there", fetch("t1", fetch_partition(), isolation_level=1), 11)


@case
def transactions_of_version_2(probe: Probe) -> None:
    transactions_ready(probe)
    ready(probe)
    probe.create_topic("t2", 2)
    who = open_producer(probe, "t2")
    for committed in (True, False):
        data = batch(b"a", base_sequence=0, transactional=True, **who)
        probe.ask("produce", produce("t2", data, acks=-1, transactional_id="t2"), 12)
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        topics = [TxnOffsetCommitRequestTopic(name="t2", partitions=[part])]
        probe.ask(
            "commit offsets",
            TxnOffsetCommitRequest(transactional_id="t2", group_id="t2-group", topics=topics, **who),
            5,
        )
        answer = probe.ask("end", EndTxnRequest(transactional_id="t2", committed=committed, **who), 5)
        time.sleep(0.3)
        probe.ask("end again", EndTxnRequest(transactional_id="t2", committed=committed, **who), 5)
        probe.ask("produce with the old epoch", produce("t2", data, acks=-1, transactional_id="t2"), 12)
        who = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
        time.sleep(0.3)
    probe.ask("end nothing", EndTxnRequest(transactional_id="t2", committed=True, **who), 5)
    probe.ask("what is there", fetch("t2", fetch_partition(), isolation_level=1), 12)
    many = AddPartitionsToTxnTransaction(
        transactional_id="t2", topics=[AddPartitionsToTxnTopic(name="t2", partitions=[0])], **who
    )
    for version in (4, 5):
        probe.ask("several", AddPartitionsToTxnRequest(transactions=[many]), version)
        many.verify_only = True
        probe.ask("verify", AddPartitionsToTxnRequest(transactions=[many]), version)
    for version in range(3):
        answer = probe.quietly(ListTransactionsRequest(state_filters=["nonsense"]), version)
        probe.note(f"list v{version}", answer.to_json(version))


@case
def transaction_markers(probe: Probe) -> None:
    """Markers from outside are how an administrator ends a transaction that hangs."""
    transactions_ready(probe)
    probe.create_topic("tm")
    for version in (1, 2):
        for label, topic, index in (("good", "tm", 0), ("unknown topic", "tm-nope", 0), ("unknown partition", "tm", 9)):
            topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[index])]
            marker = WritableTxnMarker(
                producer_id=4242, producer_epoch=3, transaction_result=False, topics=topics, coordinator_epoch=5
            )
            probe.ask(label, WriteTxnMarkersRequest(markers=[marker]), version)
        old = WritableTxnMarker(
            producer_id=4242,
            producer_epoch=1,
            topics=[WritableTxnMarkerTopic(name="tm", partition_indexes=[0])],
            coordinator_epoch=4,
        )
        probe.ask("from the past", WriteTxnMarkersRequest(markers=[old]), version)
        probe.ask("nothing", WriteTxnMarkersRequest(), version)
    probe.ask("what is there", fetch("tm", fetch_partition(), isolation_level=1), 12)
