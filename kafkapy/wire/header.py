"""The headers in front of every request and response.

    request   int16 api key, int16 api version, int32 correlation id, nullable string client id; version 2: tag section
    response  int32 correlation id; version 1: tag section

The client id keeps its int16 length in version 2: a broker must be able to read a header before it knows whether it knows
the version.
"""

from __future__ import annotations

from kafkapy.errors import ProtocolError
from kafkapy.wire.primitives import Buffer, skip_tags
from kafkapy.wire.schema import Data, int16, int32, string


class RequestHeader(Data, versions="1-2", flexible="2+"):
    """Version 2 stands in front of flexible versions of a request."""

    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string(nullable="1+", flexible=False)


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    """Version 1 stands in front of flexible versions of a response, except for ApiVersions."""

    correlation_id: int = int32()


def skip_header_tags(buf: Buffer, pos: int, end: int) -> int:
    """The position after a header's tag section. Kafka defines no tagged header fields, so it is one zero byte nearly always."""
    if pos >= end:
        raise ProtocolError("a header ends before its tag section")
    count = buf[pos]
    if not count:
        return pos + 1
    try:
        return skip_tags(buf, pos + 1, end, count)
    except IndexError:
        raise ProtocolError("a header's tag section is cut off") from None
