"""AllocateProducerIds (key 67): a broker fetches a block of producer ids, which it alone hands out (KIP-730)."""

from kafkapy.wire.schema import Request, Response, int16, int32, int64


class AllocateProducerIdsRequest(Request, key=67, versions="0", flexible="0+"):
    """Give me a block."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    """The block."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
