"""What is for the controller to decide goes to it, whichever broker was asked (KIP-590).

A broker that is the active controller handles such a request itself. Any other one puts it into an Envelope, and passes the answer on. Before
it does it lets its own image reach the offset at which the answer is true, so that a client that asks the same broker next sees what it has
done. Where no controller answers in time the client is told NOT_CONTROLLER, after which it asks again.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkapy.handlers.wait import METADATA_CHANGED, Wait
from kafkapy.wire.apis import API_BY_KEY, Api
from kafkapy.wire.header import skip_header_tags

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.wire.messages.envelope import EnvelopeRequest

Handle = Callable[["RequestContext", Any], Any]

# How long an answer is held back until this broker has read what the controller has committed.
CATCH_UP_MS = 1_000

ENVELOPE_VERSION = 0

_HEADER = struct.Struct(">hhi")

# DefaultPrincipalData v0 behind its version: type "User", name "ANONYMOUS", no delegation token, no tags.
ANONYMOUS = b"\0\0\x05User\x0aANONYMOUS\0\0"


class Forwarded:
    """The answer to one forwarded request; also the key under which it is waited for."""

    __slots__ = ("answered", "metadata_offset", "own", "response")

    def __init__(self) -> None:
        self.answered = False
        self.own: Any = None  # What this node says itself, where nobody has answered.
        self.response: Any = None
        self.metadata_offset = -1


def forwarding(handle: Handle, key: int) -> Handle:
    """The same handler, asked only where this node decides."""
    api = API_BY_KEY[key]

    def handle_or_forward(context: RequestContext, request: Any) -> Any:
        if context.broker.controller.is_active:
            return handle(context, request)
        if key == 44:
            from kafkapy.handlers.incremental_alter_configs import split_loggers

            of_loggers, rest = split_loggers(context, request)
            if not rest.resources:
                return of_loggers

            def merge(response: Any) -> Any:
                response.responses += of_loggers.responses
                return response

            return forward(context, api, rest, handle, merge)
        return forward(context, api, request, handle)

    return handle_or_forward


def forward(
    context: RequestContext,
    api: Api,
    request: Any,
    handle: Handle,
    finish: Callable[[Any], Any] = lambda response: response,
) -> Wait:
    """Have the controller answer. Where nobody does, `handle` refuses as somebody who is not the controller."""
    broker = context.broker
    forwarded = Forwarded()
    version = context.api_version

    def done(answer: Any) -> None:
        forwarded.answered = True
        if answer is not None and not answer.error_code and answer.response_data is not None:
            forwarded.response = _open(api, version, answer.response_data)
            if answer.metadata_offset > broker.image.offset:
                forwarded.metadata_offset = answer.metadata_offset
                broker.controller_channel.later(CATCH_UP_MS, let_go)
        broker.wake(forwarded)

    def let_go() -> None:
        forwarded.metadata_offset = -1
        broker.wake(forwarded)

    timeout_ms = broker.config.request_timeout_ms
    envelope = _seal(context, api, version, request)
    broker.controller_channel.ask(envelope, ENVELOPE_VERSION, done, timeout_ms)
    limit_ms = context.now_ms + timeout_ms + 2 * CATCH_UP_MS

    def again(expired: bool) -> Any:
        if not forwarded.answered and not expired:
            return None
        if forwarded.response is None:
            if forwarded.own is None:
                forwarded.own = handle(context, request)
            answer = forwarded.own
            if isinstance(answer, Wait):
                # This node has been elected meanwhile, and decides itself. What it waits for changes the metadata.
                answer = answer.again(expired)
            return None if answer is None else finish(answer)
        if broker.image.offset < forwarded.metadata_offset and not expired:
            return None
        return finish(forwarded.response)

    return Wait((forwarded, METADATA_CHANGED), limit_ms, again)


def forward_own(
    context: RequestContext, request: Any, version: int, done: Callable[[Any], None], timeout_ms: int
) -> None:
    """Have the controller answer a request that this broker makes for its client; `done` gets the answer or None."""
    api = API_BY_KEY[request.SCHEMA.key]

    def opened(answer: Any) -> None:
        failed = answer is None or answer.error_code or answer.response_data is None
        done(None if failed else _open(api, version, answer.response_data))

    envelope = _seal(context, api, version, request)
    context.broker.controller_channel.ask(envelope, ENVELOPE_VERSION, opened, timeout_ms)


def _seal(context: RequestContext, api: Api, version: int, request: Any) -> EnvelopeRequest:
    from kafkapy.wire.messages.envelope import EnvelopeRequest

    name = (context.client_id or "").encode()
    header = _HEADER.pack(api.key, version, 0) + struct.pack(">h", len(name)) + name
    tags = b"\0" if api.request_header_version(version) >= 2 else b""
    return EnvelopeRequest(
        request_data=header + tags + request.encode(version),
        request_principal=ANONYMOUS,
        client_host_address=_address(context.connection.client_host),
    )


def _open(api: Api, version: int, data: bytes) -> Any:
    position = 4
    if api.response_header_version(version):
        position = skip_header_tags(data, position, len(data))
    return api.response.decode(data, version, position)


def _address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
