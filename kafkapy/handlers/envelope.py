"""Envelope (key 58, v0): a request of a client that another broker passes on to the active controller (KIP-590).

The answer's bytes are those that the client would have got here. Beside them stands the metadata offset at which they are true, so that
the broker can let its own image get there before it answers the client.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any

from kafkapy.errors import ErrorCode, ProtocolError
from kafkapy.handlers import CONTROLLER_HANDLERS, CONTROLLER_SERVED, FORWARDED
from kafkapy.handlers.context import ForwardedClient, RequestContext
from kafkapy.handlers.wait import Wait
from kafkapy.wire.apis import API_BY_KEY, Api
from kafkapy.wire.header import skip_header_tags
from kafkapy.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

_HEADER = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")


def handle(context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse | Wait:
    """Open it, have the request handled, and put the answer into another one."""
    broker = context.broker
    if not broker.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    data = request.request_data
    if len(data) < _HEADER.size:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    key, version, correlation_id = _HEADER.unpack_from(data)
    if key not in FORWARDED or key not in CONTROLLER_SERVED:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    api = API_BY_KEY[key]
    if version not in api.versions:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        client_id, inner = _open(api, version, data)
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    client = ForwardedClient(context.connection, request.client_host_address)
    module = import_module(f"kafkapy.handlers.{CONTROLLER_HANDLERS.get(key, api.module_name)}")
    handle_inner: Callable[[RequestContext, Any], Any] = module.handle
    answer = handle_inner(RequestContext(broker, client, version, client_id, context.now_ms), inner)

    def seal(response: Any) -> EnvelopeResponse:
        header = _CORRELATION.pack(correlation_id) + b"\0" * api.response_header_version(version)
        return EnvelopeResponse(response_data=header + response.encode(version), metadata_offset=broker.image.offset)

    if not isinstance(answer, Wait):
        return seal(answer)

    def again(expired: bool) -> EnvelopeResponse | None:
        response = answer.again(expired)
        return None if response is None else seal(response)

    return Wait(answer.keys, answer.deadline_ms, again)


def _open(api: Api, version: int, data: bytes) -> tuple[str | None, Any]:
    """The client's id and request."""
    position = _HEADER.size
    if position + 2 > len(data):
        raise ProtocolError("a request shorter than its header")
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    position += 2
    client_id = None
    if length >= 0:
        client_id = str(data[position : position + length], "utf-8", "replace")
        position += length
    if api.request_header_version(version) >= 2:
        position = skip_header_tags(data, position, len(data))
    return client_id, api.request.decode(data, version, position)
