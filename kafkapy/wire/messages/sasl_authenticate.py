"""SaslAuthenticate (key 36): one step of a SASL exchange; the mechanism decides how many there are.

Versions
- 0: tokens, and a failure that can be told from a lost connection (KIP-152).
- 1: how long the session lasts before the client must authenticate again (KIP-368).
- 2: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, bytes_, int16, int64, string


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = bytes_()


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytes_()
    # 0: for as long as the connection.
    session_lifetime_ms: int = int64("1+", ignorable=True)
