"""Transactions as `__transaction_state` stores them, a compacted topic with one key for each transactional id."""

from kafkapy.wire.schema import Record, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Record, type=0, versions="0"):
    """A transactional id."""

    transactional_id: str = string()


class PartitionsSchema(Struct):
    """Partitions of a topic that take part in the transaction."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Record, type=0, versions="0-1", flexible="1+"):
    """The producer of a transactional id and its ongoing or last transaction.

    Version 1 uses the compact encodings and adds, all tagged, what transaction version 2 needs (KIP-890): the producer
    id before and after, the epoch after, and which transaction version the client speaks. Kafka writes it once the
    cluster's transaction.version is 1 or more.
    """

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0, tagged="1+")
    next_producer_id: int = int64("1+", default=-1, tag=1, tagged="1+")
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3, tagged="1+")
    transaction_timeout_ms: int = int32()
    # 0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort, 6 Dead, 7 the epoch is
    # about to be fenced.
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")  # Null if Empty.
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2, tagged="1+")
