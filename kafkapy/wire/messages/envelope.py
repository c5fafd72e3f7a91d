"""Envelope (key 58): a broker passes a client's request on to the controller, and says who the client is (KIP-590)."""

from kafkapy.wire.schema import Request, Response, bytes_, int16, int64


class EnvelopeRequest(Request, key=58, versions="0", flexible="0+"):
    """Answer this for me."""

    request_data: bytes = bytes_()  # The client's request: header and body.
    request_principal: bytes | None = bytes_(nullable="0+")  # DefaultPrincipalData behind its int16 version.
    client_host_address: bytes = bytes_()  # 4 or 16 bytes.


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    """The answer; an error here is about the envelope, not about what is in it."""

    response_data: bytes | None = bytes_(nullable="0+", default=None)  # Header and body.
    error_code: int = int16()
    # Ours, and unknown to Apache Kafka, which skips it: the metadata offset at which the answer is true.
    metadata_offset: int = int64(default=-1, tag=10_000, tagged="0+")
