"""GetTelemetrySubscriptions (key 71): a client asks which of its metrics it shall send, and how often (KIP-714)."""

from kafkapy.wire.schema import Request, Response, array, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Request, key=71, versions="0", flexible="0+"):
    """What do you want to know?"""

    client_instance_id: bytes = uuid()  # All zeros the first time: the broker draws one.


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    """These metrics, this often."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()  # Changes with what is wanted.
    accepted_compression_types: list[int] = array(int8)  # The best first; numbered like the codecs of record batches.
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()  # Whether counters shall be sent as differences since the last push.
    requested_metrics: list[str] = array(string)  # Prefixes of names; one empty prefix is all, no prefix is nothing.
