"""InitProducerId (key 22): a producer id and its epoch. Every idempotent producer, which by now is every producer.

Without a transactional id any broker answers. With one it goes to the transaction coordinator, which fences the
earlier holders of the id and ends what they left open.

Versions
- 0: the id and the epoch (KIP-98).
- 1: throttled clients wait by themselves (KIP-219).
- 2: flexible (KIP-482).
- 3: a producer names the id and epoch it has, to have the epoch raised (KIP-360).
- 4: PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588).
- 5: the client understands TRANSACTION_ABORTABLE (KIP-890).
- 6: two-phase commit with an outside coordinator (KIP-939). Unstable, hence not advertised.
"""

from kafkapy.wire.schema import Request, Response, boolean, int16, int32, int64, string


class InitProducerIdRequest(Request, key=22, versions="0-6", flexible="2+"):
    # Null for a producer that is idempotent only.
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    # -1 and -1 on the first call.
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable_2pc: bool = boolean("6+", json="enable2Pc")
    # A prepared transaction stays open, for the outside coordinator to decide about.
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    # Of the transaction that was kept.
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
