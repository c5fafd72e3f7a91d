"""From a frame to its handler and back: header, version check, decode, handle, and the recipe for encoding the answer."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ProtocolError
from kafkapy.handlers import CONTROLLER_HANDLERS, CONTROLLER_SERVED, FORWARDED, SERVED
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.wait import Wait
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.header import skip_header_tags

if TYPE_CHECKING:
    from kafkapy.handlers.context import BrokerView
    from kafkapy.server.broker import Broker
    from kafkapy.server.connection import Connection
    from kafkapy.server.waiting import Waiting
    from kafkapy.wire.apis import Api

log = logging.getLogger("kafkapy.requests")

_HEADER = struct.Struct(">hhi")  # api key, version, correlation id
_SIZE_AND_CORRELATION = struct.Struct(">ii")
API_VERSIONS = 18
BROKER_HEARTBEAT = 63


class Call:
    """How the answer to one request is encoded."""

    __slots__ = ("correlation_id", "encode_body", "flexible", "name")

    def __init__(self, name: str, correlation_id: int, flexible: bool, encode_body: Callable[..., None]) -> None:
        self.name = name
        self.correlation_id = correlation_id
        self.flexible = flexible
        self.encode_body = encode_body

    def encode(self, response: Any, out: bytearray, splits: list[tuple[int, Any]]) -> None:
        """Append the framed answer. File slices are not copied: their places go to `splits`."""
        if response is None:
            return  # acks=0: the client expects nothing
        begin, first_split = len(out), len(splits)
        out += b"\0\0\0\0\0\0\0\0\0" if self.flexible else b"\0\0\0\0\0\0\0\0"
        try:
            self.encode_body(response, out, splits)
        except BaseException:
            for _, piece in splits[first_split:]:
                piece.release()
            del out[begin:], splits[first_split:]
            raise
        size = len(out) - begin - 4
        for _, piece in splits[first_split:]:
            size += piece.size
        _SIZE_AND_CORRELATION.pack_into(out, begin, size, self.correlation_id)


class Route:
    """One API at one version: compiled decoder, handler, compiled encoder."""

    __slots__ = ("decode", "encode", "handle", "name", "request_flexible", "response_flexible")

    def __init__(self, api: Api, version: int, module_name: str) -> None:
        self.name = api.name
        self.handle: Callable[[RequestContext, Any], Any] = import_module(f"kafkapy.handlers.{module_name}").handle
        self.decode = api.request.decoder(version)
        self.encode = api.response.encoder(version)
        self.request_flexible = api.request_header_version(version) >= 2
        self.response_flexible = api.response_header_version(version) >= 1


class Dispatcher:
    """Hands each frame to its handler. One for all connections of the broker's listeners."""

    served = SERVED
    # Where a listener answers an API with another module than the one named like it.
    handlers: Mapping[int, str] = {}
    # What is passed on where another node is the active controller.
    forwarded = FORWARDED

    def __init__(
        self,
        broker: BrokerView,
        waiting: Waiting,
        clock_ms: Callable[[], int],
        connection_closed: Callable[[Connection], None],
    ) -> None:
        self.broker = broker
        self.waiting = waiting
        self.clock_ms = clock_ms
        self.connection_closed = connection_closed
        self._routes: dict[int, Route] = {}

    def handle(self, connection: Connection, view: memoryview, start: int, end: int, now_ms: int) -> None:
        """Handle one frame; its answer goes into the connection's queue."""
        if end - start < _HEADER.size:
            raise ProtocolError("a request shorter than its header")
        key, version, correlation_id = _HEADER.unpack_from(view, start)
        route = self._routes.get((key << 16) | (version & 0xFFFF))
        if route is None:
            route = self._route(key, version)
        position, client_id = _client_id(view, start + 8, end)
        if route.request_flexible:
            position = skip_header_tags(view, position, end)
        request, _ = route.decode(view, position, end)
        context = RequestContext(self.broker, connection, version, client_id, now_ms)
        call = Call(route.name, correlation_id, route.response_flexible, route.encode)
        try:
            response = route.handle(context, request)
        except ProtocolError:
            raise
        except Exception:
            log.exception("%s v%d failed", route.name, version, extra={"client": connection.client_host})
            connection.close()
            return
        if response.__class__ is Wait:
            connection.wait(call, response)
        elif response is not None:
            connection.answer(call, response)

    def _route(self, key: int, version: int) -> Route:
        api = API_BY_KEY.get(key) if key in self.served else None
        if api is None:
            raise ProtocolError(f"a request with API key {key}, which is not served on this listener")
        module_name = self.handlers.get(key, api.module_name)
        if api.versions.first <= version <= api.advertised.last:
            route = self._routes[(key << 16) | version] = Route(api, version, module_name)
            if key in self.forwarded:
                from kafkapy.handlers.forwarding import forwarding

                route.handle = forwarding(route.handle, key)
            return route
        if key == API_VERSIONS:
            return UnsupportedApiVersions(api, module_name)
        raise ProtocolError(f"{api.name} version {version}, which is not served")


class ControllerDispatcher(Dispatcher):
    """The same for the controller listeners: they serve other requests, and the links between voters begin there."""

    served = CONTROLLER_SERVED
    handlers = CONTROLLER_HANDLERS
    forwarded = frozenset()

    def __init__(self, broker: Broker, *arguments: Any) -> None:
        super().__init__(broker, *arguments)
        self._node = broker

    def _route(self, key: int, version: int) -> Route:
        route = super()._route(key, version)
        if key == BROKER_HEARTBEAT:
            route.handle = partial(self._heard, route.handle)
        return route

    def _heard(self, handle: Callable[[RequestContext, Any], Any], context: RequestContext, request: Any) -> Any:
        """A broker's life hangs on the connection on which it sends heartbeats."""
        if self._node.cluster is not None:
            self._node.cluster.heard(request.broker_id, context.connection)
        return handle(context, request)

    def handle(self, connection: Connection, view: memoryview, start: int, end: int, now_ms: int) -> None:
        """Hand the connection over if its frame opens a link between voters, else handle the frame."""
        links = self.broker.voter_links
        if links is not None and links.opens(view[start:end]):
            connection.hand_over(start - 4, links.accept)
            return
        super().handle(connection, view, start, end, now_ms)


class UnsupportedApiVersions(Route):
    """ApiVersions from the future: nothing of its body can be read, and it is answered in version 0 with what we do know."""

    __slots__ = ()

    def __init__(self, api: Api, module_name: str) -> None:
        super().__init__(api, 0, module_name)
        self.handle = import_module("kafkapy.handlers.api_versions").handle_unsupported
        self.decode = lambda view, position, end: (None, end)


def _client_id(view: memoryview, position: int, end: int) -> tuple[int, str | None]:
    """The client id, which keeps its old encoding in every header version. As lenient as Kafka: it is only a name in logs and quotas."""
    if position + 2 > end:
        raise ProtocolError("a request shorter than its header")
    length = (view[position] << 8) | view[position + 1]
    position += 2
    if length >= 0x8000:
        return position, None
    stop = position + length
    if stop > end:
        raise ProtocolError("a client id longer than its request")
    return stop, str(view[position:stop], "utf-8", "replace")
