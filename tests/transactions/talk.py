"""One conversation about transactions with a broker, in raw requests of chosen versions, and what was answered in words that can be compared.

Producer ids are numbered in the order in which they are met (P0, P1), because their values mean nothing. CONCURRENT_TRANSACTIONS is asked again,
as clients do: how long markers take is no difference.
"""

from __future__ import annotations

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
