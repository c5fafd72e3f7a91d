"""EndTxn (key 26): commit or abort a transaction. Every transactional producer, to its transaction coordinator.

Versions
- 0: the decision (KIP-98).
- 1: throttled clients wait by themselves (KIP-219).
- 2: PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588).
- 3: flexible (KIP-482).
- 4: the client understands TRANSACTION_ABORTABLE (KIP-890).
- 5: transaction version 2: every end raises the epoch, and the answer carries the new id and epoch (KIP-890).
"""

from kafkapy.wire.schema import Request, Response, boolean, int16, int32, int64, string


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    # False aborts.
    committed: bool = boolean()


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    # The id changes too when the epoch has come to its end.
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
