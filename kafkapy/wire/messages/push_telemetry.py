"""PushTelemetry (key 72): a client sends the metrics that GetTelemetrySubscriptions asked for (KIP-714)."""

from kafkapy.wire.schema import Request, Response, boolean, bytes_, int8, int16, int32, uuid


class PushTelemetryRequest(Request, key=72, versions="0", flexible="0+"):
    """My metrics."""

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()  # The client's last push, which may come early.
    compression_type: int = int8()  # Numbered like the codecs of record batches.
    metrics: bytes = bytes_()  # OpenTelemetry's MetricsData in protobuf.


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    """How it went."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
