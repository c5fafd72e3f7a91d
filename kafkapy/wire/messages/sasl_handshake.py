"""SaslHandshake (key 17): choose the SASL mechanism. Every client that authenticates with SASL.

Never flexible. After version 0 the tokens follow as bare frames of size and bytes, without any request header; after
version 1 they travel inside SaslAuthenticate. UNSUPPORTED_SASL_MECHANISM comes with the list of those that work.

Versions
- 0: bare tokens follow.
- 1: SaslAuthenticate follows (KIP-152).
"""

from kafkapy.wire.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
