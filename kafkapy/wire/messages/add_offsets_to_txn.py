"""AddOffsetsToTxn (key 25): a transaction is about to commit offsets of this group. Transactional producers.

It makes the group's partition of __consumer_offsets part of the transaction. With transaction version 2 a producer
leaves it out and TxnOffsetCommit does the same by itself.

Versions
- 0: the group of one transaction (KIP-98).
- 1: throttled clients wait by themselves (KIP-219).
- 2: PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588).
- 3: flexible (KIP-482).
- 4: the client understands TRANSACTION_ABORTABLE (KIP-890).
"""

from kafkapy.wire.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
