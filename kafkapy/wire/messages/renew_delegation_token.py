"""RenewDelegationToken (key 39): lets a delegation token live longer.

Versions
- 1: throttled clients wait by themselves (KIP-219). Version 0 is gone since Kafka 4.0.
- 2: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, bytes_, int16, int32, int64


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    """Renew the token with this secret."""

    hmac: bytes = bytes_()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    """When it expires now."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
