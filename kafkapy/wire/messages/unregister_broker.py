"""UnregisterBroker (key 64): removes a broker that won't come back from the cluster's metadata."""

from kafkapy.wire.schema import Request, Response, int16, int32, string


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    """Forget this broker."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    """How it went."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
