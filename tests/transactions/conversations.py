"""Conversations with a broker about transactions, in raw requests of chosen versions. What it answers can be compared with another's.

    python -m tests.transactions.conversations HOST:PORT      print the answers as JSON

`kafka_answers.json` has what Apache Kafka 4.3.1 says. Producer ids are numbered in the order in which they are met (P0, P1), because their
values mean nothing. CONCURRENT_TRANSACTIONS is asked again, as clients do: how long markers take is no difference.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.wire.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from kafkapy.wire.messages.list_transactions import ListTransactionsRequest
from kafkapy.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
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
from kafkapy.wire.records import BatchBuilder
from tests.support.wire_client import WireClient

PARTITIONS = 2
ASK_AGAIN_S = 0.02
ASK_AGAIN_MAX = 500
PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}


class Talk:
    """One conversation: a topic and a transactional id of its own, and what was answered."""

    def __init__(self, wire: WireClient, name: str, timeout_ms: int = 60_000) -> None:
        self.wire = wire
        self.timeout_ms = timeout_ms
        self.topic = f"topic-{name}"
        self.id = f"id-{name}"
        self.group = f"group-{name}"
        self.said: list[str] = []
        self.names: dict[int, str] = {-1: "-"}
        self.pid = -1
        self.epoch = -1
        self._ask(
            CreateTopicsRequest(
                topics=[CreatableTopic(name=self.topic, num_partitions=PARTITIONS, replication_factor=1)]
            ),
            7,
        )
        for key_type, key in ((1, self.id), (0, self.group)):
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            self._until(lambda find=find: self._ask(find, 4), lambda answer: answer.coordinators[0].error_code)

    def _ask(self, request: Any, version: int) -> Any:
        return self.wire.request(request, version)

    def _until(self, ask: Callable[[], Any], code: Callable[[Any], int]) -> Any:
        for _ in range(ASK_AGAIN_MAX):
            answer = ask()
            if code(answer) not in PASSING:
                return answer
            time.sleep(ASK_AGAIN_S)
        return answer

    def _say(self, what: str, code: int, *rest: object) -> int:
        words = [what, ErrorCode(code).name, *(str(one) for one in rest)]
        self.said.append(" ".join(words))
        return code

    def name(self, producer_id: int) -> str:
        """P0 for the first producer id of the conversation, and so on."""
        return self.names.setdefault(producer_id, f"P{len(self.names) - 1}")

    def init(
        self, version: int = 5, *, pid: int = -1, epoch: int = -1, timeout_ms: int = 60_000, named: str | None = None
    ) -> tuple[int, int]:
        """InitProducerId; the producer is the conversation's from now on, if there is one."""
        request = InitProducerIdRequest(
            transactional_id=self.id if named is None else named,
            transaction_timeout_ms=timeout_ms,
            producer_id=pid,
            producer_epoch=epoch,
        )
        answer = self._until(lambda: self._ask(request, version), lambda one: one.error_code)
        self._say(f"init v{version}", answer.error_code, self.name(answer.producer_id), answer.producer_epoch)
        if not answer.error_code:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
        return self.pid, self.epoch

    def add(
        self,
        version: int,
        *indexes: int,
        pid: int | None = None,
        epoch: int | None = None,
        named: str | None = None,
        topic: str | None = None,
        verify: bool = False,
    ) -> None:
        """AddPartitionsToTxn."""
        pid = self.pid if pid is None else pid
        epoch = self.epoch if epoch is None else epoch
        named = self.id if named is None else named
        topics = [AddPartitionsToTxnTopic(name=topic or self.topic, partitions=list(indexes))]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=named,
                v3_and_below_producer_id=pid,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
        else:
            request = AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id=named, producer_id=pid, producer_epoch=epoch, verify_only=verify, topics=topics
                    )
                ]
            )

        def results(answer: Any) -> Any:
            if version < 4:
                return answer.results_by_topic_v3_and_below
            return answer.results_by_transaction[0].topic_results

        def first(answer: Any) -> int:
            return int(results(answer)[0].results_by_partition[0].partition_error_code)

        answer = self._until(lambda: self._ask(request, version), first)
        codes = {
            one.partition_index: ErrorCode(one.partition_error_code).name
            for result in results(answer)
            for one in result.results_by_partition
        }
        self._say(f"{'verify' if verify else 'add'} v{version}", answer.error_code, dict(sorted(codes.items())))

    def offsets_join(self, version: int = 4, *, epoch: int | None = None) -> None:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=self.pid,
            producer_epoch=self.epoch if epoch is None else epoch,
            group_id=self.group,
        )
        answer = self._until(lambda: self._ask(request, version), lambda one: one.error_code)
        self._say(f"add offsets v{version}", answer.error_code)

    def commit_offset(
        self, version: int, offset: int, *, epoch: int | None = None, topic: str | None = None, generation: int = -1
    ) -> None:
        """TxnOffsetCommit of partition 0."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=self.group,
            producer_id=self.pid,
            producer_epoch=self.epoch if epoch is None else epoch,
            generation_id=generation,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic or self.topic,
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
                )
            ],
        )
        answer = self._until(lambda: self._ask(request, version), lambda one: one.topics[0].partitions[0].error_code)
        self._say(f"commit offset v{version}", answer.topics[0].partitions[0].error_code)

    def fetch_offset(self, *, stable: bool = False, settle: bool = True) -> None:
        """OffsetFetch of partition 0."""
        topics = [OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])]
        request = OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=stable)

        def code(answer: Any) -> int:
            return int(answer.error_code or answer.topics[0].partitions[0].error_code) if settle else 0

        answer = self._until(lambda: self._ask(request, 7), code)
        one = answer.topics[0].partitions[0]
        self._say("fetch offset", one.error_code or answer.error_code, one.committed_offset)

    def produce(
        self,
        version: int,
        *,
        sequence: int = 0,
        index: int = 0,
        pid: int | None = None,
        epoch: int | None = None,
        named: str | None = None,
        transactional: bool = True,
    ) -> None:
        """Produce one record."""
        pid = self.pid if pid is None else pid
        epoch = self.epoch if epoch is None else epoch
        builder = BatchBuilder(
            producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
        builder.append(int(time.time() * 1000), b"k", b"v")
        request = ProduceRequest(
            transactional_id=(self.id if named is None else named) if transactional else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=self.topic, partition_data=[PartitionProduceData(index=index, records=bytes(builder.build()))]
                )
            ],
        )
        passing = {
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

        for _ in range(ASK_AGAIN_MAX):
            answer = self._ask(request, version)
            one = answer.responses[0].partition_responses[0]
            if one.error_code not in passing:
                break
            time.sleep(ASK_AGAIN_S)
        self._say(f"produce v{version}", one.error_code, one.base_offset)

    def end(
        self,
        version: int = 5,
        *,
        commit: bool = True,
        pid: int | None = None,
        epoch: int | None = None,
        named: str | None = None,
    ) -> None:
        """EndTxn; with v5 the conversation goes on under the epoch that is answered."""
        request = EndTxnRequest(
            transactional_id=self.id if named is None else named,
            producer_id=self.pid if pid is None else pid,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        answer = self._until(lambda: self._ask(request, version), lambda one: one.error_code)
        what = f"{'commit' if commit else 'abort'} v{version}"
        if version < 5:
            self._say(what, answer.error_code)
            return
        self._say(what, answer.error_code, self.name(answer.producer_id), answer.producer_epoch)
        if not answer.error_code:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch

    def describe_quietly(self, named: str | None = None) -> Any:
        """DescribeTransactions, once no markers are under way."""
        request = DescribeTransactionsRequest(transactional_ids=[self.id if named is None else named])
        for _ in range(ASK_AGAIN_MAX):
            one = self._ask(request, 0).transaction_states[0]
            if one.error_code not in PASSING and not one.transaction_state.startswith("Prepare"):
                break
            time.sleep(ASK_AGAIN_S)
        return one

    def describe(self, named: str | None = None) -> None:
        """DescribeTransactions."""
        one = self.describe_quietly(named)
        partitions = [len(topic.partitions) for topic in one.topics]
        started = one.transaction_start_time_ms > 0
        self._say(
            "describe",
            one.error_code,
            one.transaction_state or "-",
            self.name(one.producer_id if one.transaction_state else -1),
            one.producer_epoch,
            one.transaction_timeout_ms,
            partitions,
            "started" if started else "not started",
        )

    def list(self, version: int = 2, **filters: Any) -> None:
        """ListTransactions, as far as it is about this conversation."""
        answer = self._ask(ListTransactionsRequest(**filters), version)
        mine = [one.transaction_state for one in answer.transaction_states if one.transactional_id == self.id]
        self._say(f"list v{version} {sorted(filters)}", answer.error_code, mine, list(answer.unknown_state_filters))

    def mark(
        self,
        version: int,
        *,
        epoch: int,
        coordinator_epoch: int,
        committed: bool = False,
        index: int = 0,
        txn_version: int = 0,
    ) -> None:
        """WriteTxnMarkers, as an administrator who aborts a hanging transaction."""
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=self.pid,
                    producer_epoch=epoch,
                    transaction_result=committed,
                    coordinator_epoch=coordinator_epoch,
                    transaction_version=txn_version,
                    topics=[WritableTxnMarkerTopic(name=self.topic, partition_indexes=[index])],
                )
            ]
        )
        answer = self._ask(request, version)
        self._say(f"mark v{version}", answer.markers[0].topics[0].partitions[0].error_code)

    def read(self, index: int = 0) -> None:
        """Fetch committed records, once nothing is open: the batches and the aborted transactions."""
        partition = FetchPartition(partition=index, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, isolation_level=1, topics=[FetchTopic(topic=self.topic, partitions=[partition])]
        )
        self.describe_quietly()
        one = self._ask(request, 12).responses[0].partitions[0]
        aborted = [(self.name(entry.producer_id), entry.first_offset) for entry in one.aborted_transactions or ()]
        stable = one.last_stable_offset
        self._say("read", one.error_code, f"stable {stable} of {one.high_watermark}", "aborted", aborted)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {}


def conversation(run: Callable[[Talk], None]) -> Callable[[Talk], None]:
    """Register one."""
    CONVERSATIONS[run.__name__] = run
    return run


@conversation
def v2_life(talk: Talk) -> None:
    """Transactions V2 from the first to the last."""
    talk.describe()
    talk.init()
    talk.describe()
    talk.produce(12)
    talk.produce(12, sequence=1)
    talk.describe()
    talk.read()
    talk.end()
    talk.end(epoch=talk.epoch - 1)
    talk.end(epoch=talk.epoch - 1, commit=False)
    talk.describe()
    talk.read()
    talk.end()
    talk.end(commit=False)
    talk.produce(12)
    talk.produce(12, index=1)
    talk.describe()
    talk.end(commit=False)
    talk.end(epoch=talk.epoch - 1, commit=False)
    talk.end(epoch=talk.epoch - 1)
    talk.end(epoch=talk.epoch - 2)
    talk.read()
    talk.read(1)


@conversation
def v1_life(talk: Talk) -> None:
    """Transactions V1."""
    talk.init(4)
    talk.end(4)
    talk.end(4, commit=False)
    talk.produce(11)
    talk.produce(10)
    talk.add(3, 0)
    talk.describe()
    talk.add(3, 0, 1)
    talk.produce(11)
    talk.produce(10, index=1)
    talk.end(4)
    talk.end(4)
    talk.end(4, commit=False)
    talk.produce(11, sequence=1)
    talk.produce(9, sequence=1)
    talk.add(0, 1)
    talk.produce(7, sequence=1, index=1)
    talk.end(1, commit=False)
    talk.end(0, commit=False)
    talk.end(1)
    talk.read()
    talk.read(1)


@conversation
def fencing(talk: Talk) -> None:
    """A second producer takes over while the first has a transaction open."""
    pid, epoch = talk.init()
    talk.produce(12)
    talk.init()
    talk.describe()
    for version in (12, 11):
        talk.produce(version, sequence=1, pid=pid, epoch=epoch)
        talk.produce(version, index=1, pid=pid, epoch=epoch)
    for version in (0, 1, 2, 3):
        talk.add(version, 0, pid=pid, epoch=epoch)
    talk.add(4, 0, pid=pid, epoch=epoch)
    talk.add(5, 0, pid=pid, epoch=epoch, verify=True)
    for version in (0, 1, 2, 4):
        talk.end(version, pid=pid, epoch=epoch)
    talk.end(5, pid=pid, epoch=epoch)
    talk.end(5, pid=pid, epoch=epoch, commit=False)
    for version in (0, 1, 2, 4):
        talk.offsets_join(version, epoch=epoch)
    for version in (0, 2, 3, 4, 5):
        talk.commit_offset(version, 5, epoch=epoch)
    for version in (3, 4, 5):
        talk.init(version, pid=pid, epoch=epoch)
    talk.read()


@conversation
def unknown_ids(talk: Talk) -> None:
    """Nobody of that name."""
    talk.describe("nobody")
    talk.describe("")
    talk.end(5, named="nobody", pid=1, epoch=0)
    talk.end(1, named="nobody", pid=1, epoch=0)
    talk.end(5, named="", pid=1, epoch=0)
    talk.end(1, named="", pid=1, epoch=0)
    talk.add(3, 0, named="nobody", pid=1, epoch=0)
    talk.add(3, 0, named="", pid=1, epoch=0)
    talk.add(4, 0, named="nobody", pid=1, epoch=0, verify=True)
    talk.init(named="")
    talk.init(timeout_ms=0)
    talk.init(timeout_ms=900_001)
    talk.init(pid=5)
    talk.init(epoch=5)
    talk.init()
    talk.end(5, pid=talk.pid + 1000)
    talk.end(4, pid=talk.pid + 1000)
    talk.add(3, 0, pid=talk.pid + 1000)
    talk.add(3, 7)
    talk.add(3, 0, 7)
    talk.add(3, 0, topic="no-such-topic")
    talk.add(4, 0, 7)
    talk.produce(12, pid=talk.pid + 1000)
    talk.produce(11, pid=talk.pid + 1000)
    talk.produce(10, pid=talk.pid + 1000)
    talk.produce(12, named="nobody")
    talk.produce(11, named="nobody")
    talk.produce(12, named="")
    talk.describe()


@conversation
def going_on(talk: Talk) -> None:
    """KIP-360: a producer asks for its next epoch."""
    pid, epoch = talk.init()
    talk.init(pid=pid, epoch=epoch)
    talk.init(pid=pid, epoch=epoch)
    talk.init(3, pid=pid, epoch=epoch + 1)
    talk.init(3, pid=pid, epoch=epoch)
    talk.init(4, pid=pid, epoch=epoch)
    talk.init(4, pid=pid, epoch=epoch + 7)
    talk.init(5, pid=pid + 1000, epoch=0)
    talk.produce(12)
    talk.init(5, pid=talk.pid, epoch=talk.epoch)
    talk.describe()
    talk.end(commit=False)
    talk.init(5, pid=talk.pid, epoch=talk.epoch - 1)
    talk.init(5, pid=talk.pid, epoch=talk.epoch)


@conversation
def verification(talk: Talk) -> None:
    """What another broker asks."""
    talk.init()
    talk.add(4, 0, verify=True)
    talk.add(5, 0, verify=True)
    talk.add(4, 0)
    talk.add(4, 0, 1, verify=True)
    talk.add(5, 1)
    talk.add(5, 0, 1, verify=True)
    talk.describe()
    talk.end()
    talk.add(5, 0, verify=True)
    talk.add(5, 0, verify=True, epoch=talk.epoch - 1)


@conversation
def offsets(talk: Talk) -> None:
    """Offsets in transactions of both versions."""
    talk.init()
    talk.commit_offset(4, 5)
    talk.commit_offset(3, 5)
    talk.commit_offset(2, 5)
    talk.offsets_join(3)
    talk.commit_offset(3, 11)
    talk.fetch_offset()
    talk.fetch_offset(stable=True, settle=False)
    talk.end(4)
    talk.fetch_offset(stable=True)
    talk.commit_offset(5, 12)
    talk.describe()
    talk.end(commit=False)
    talk.fetch_offset(stable=True)
    talk.commit_offset(5, 13)
    talk.end()
    talk.fetch_offset(stable=True)
    talk.commit_offset(5, 14, topic="no-such-topic")
    talk.commit_offset(5, 14, generation=3)
    talk.commit_offset(5, 15, epoch=talk.epoch - 1)
    talk.end(commit=False)


@conversation
def time_out(talk: Talk) -> None:
    """A transaction that its producer leaves open. The brokers here look every second."""
    talk.init(timeout_ms=100)
    talk.produce(12)
    for _ in range(200):
        time.sleep(0.05)
        answer = talk.wire.request(DescribeTransactionsRequest(transactional_ids=[talk.id]), 0)
        if answer.transaction_states[0].transaction_state == "CompleteAbort":
            break
    talk.describe()
    talk.read()
    talk.produce(12, sequence=1)
    talk.end(commit=False)
    talk.produce(12)
    talk.end()


@conversation
def listing(talk: Talk) -> None:
    """Filters of ListTransactions."""
    talk.init()
    talk.list()
    talk.list(0, state_filters=["Empty"])
    talk.list(0, state_filters=["Ongoing"])
    talk.list(0, state_filters=["Ongoing", "Nonsense", "empty"])
    talk.list(0, state_filters=["Dead"])
    talk.list(0, producer_id_filters=[talk.pid])
    talk.list(0, producer_id_filters=[talk.pid + 1000])
    talk.list(1, duration_filter=0)
    talk.list(1, duration_filter=100_000)
    talk.produce(12)
    talk.list(0, state_filters=["Ongoing"])
    talk.list(1, duration_filter=100_000)
    talk.list(2, transactional_id_pattern="id-.*")
    talk.list(2, transactional_id_pattern="id")
    talk.list(2, transactional_id_pattern="")
    talk.list(2, transactional_id_pattern="id-(")
    talk.end()


@conversation
def markers(talk: Talk) -> None:
    """WriteTxnMarkers by hand."""
    talk.init()
    talk.produce(12)
    talk.mark(1, epoch=talk.epoch, coordinator_epoch=-1)
    talk.read()
    talk.mark(1, epoch=talk.epoch, coordinator_epoch=-1, index=7)
    talk.end(commit=False)
    talk.read()
    talk.produce(12)
    talk.mark(2, epoch=talk.epoch, coordinator_epoch=100, txn_version=2)
    talk.mark(2, epoch=talk.epoch - 1, coordinator_epoch=100, txn_version=2)
    talk.read()
    talk.end()
    talk.read()


@conversation
def mixed_writes(talk: Talk) -> None:
    """Batches inside and outside of transactions under one producer id."""
    talk.init()
    talk.produce(12)
    talk.produce(12, sequence=1, transactional=False)
    talk.end()
    talk.read()
    talk.produce(12, transactional=False)
    talk.read()


def converse(host: str, port: int) -> dict[str, list[str]]:
    """All conversations; each has a topic and ids of its own."""
    said = {}
    for name, run in CONVERSATIONS.items():
        with WireClient(host, port) as wire:
            talk = Talk(wire, name)
            run(talk)
            said[name] = talk.said
    return said


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    print(json.dumps(converse(host, int(port)), indent=1))
