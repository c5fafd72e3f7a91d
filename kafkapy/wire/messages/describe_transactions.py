"""DescribeTransactions (key 65): transactions by their transactional ids; each coordinator answers for its own (KIP-664)."""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    """How are these transactions?"""

    transactional_ids: list[str] = array(string)


class TopicData(Struct):
    """Partitions that take part."""

    topic: str = string()
    partitions: list[int] = array(int32)


class TransactionState(Struct):
    """A producer's transaction."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()  # By name: Empty, Ongoing, PrepareCommit and so on.
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()  # -1 when none is open.
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    """The transactions."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
