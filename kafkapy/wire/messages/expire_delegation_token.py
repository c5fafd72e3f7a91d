"""ExpireDelegationToken (key 40): lets a delegation token expire earlier, or at once.

Versions
- 1: throttled clients wait by themselves (KIP-219). Version 0 is gone since Kafka 4.0.
- 2: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, bytes_, int16, int32, int64


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    """Let the token with this secret expire."""

    hmac: bytes = bytes_()
    expiry_time_period_ms: int = int64()  # From now on; negative: at once.


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    """When it expires now."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
