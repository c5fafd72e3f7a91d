"""AddPartitionsToTxn (key 24): partitions a transaction is about to write to. Goes to the transaction coordinator.

Up to version 3 a producer sends it before its first write to a partition; with transaction version 2 it no longer
does. From version 4 on only brokers send it, for many transactions at once, to verify or add on a producer's behalf.

Versions
- 0: one transaction (KIP-98).
- 1: throttled clients wait by themselves (KIP-219).
- 2: PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588).
- 3: flexible (KIP-482).
- 4: many transactions, and verify_only (KIP-890).
- 5: the sender understands TRANSACTION_ABORTABLE (KIP-890).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    # Only say whether the partitions are in the transaction.
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    # All partitions or none: where one fails, the others answer OPERATION_NOT_ATTEMPTED.
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")
