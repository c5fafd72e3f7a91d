"""Limits of connections and memory: who is refused, who waits, who is let go."""

from __future__ import annotations

import struct

from kafkapy.testing import Broker
from tests.server.support import is_served, wait_until
from tests.support.requests import batch, fetch, fetch_partition, metadata, produce
from tests.support.wire_client import WireClient, connected, encode, frame, header


def test_max_connections() -> None:
    """As in Kafka the connection that is one too many waits in the backlog until another closes."""
    with Broker(config={"max.connections": "2"}) as broker:
        first, second, third = (WireClient("127.0.0.1", broker.port) for _ in range(3))
        assert is_served(first) and is_served(second)
        third.send(metadata(), 9)
        assert third.is_silent()
        first.close()
        assert third.receive().brokers
        second.close()
        third.close()


def test_max_connections_per_ip() -> None:
    """One address may have so many; the next is closed at once, and room comes back when one of them leaves."""
    with Broker(config={"max.connections.per.ip": "2"}) as broker:
        first, second = (WireClient("127.0.0.1", broker.port) for _ in range(2))
        assert is_served(first) and is_served(second)
        with WireClient("127.0.0.1", broker.port) as third:
            assert third.is_closed()
        first.close()
        wait_until(lambda: broker.parts.server.connection_count == 1)
        with WireClient("127.0.0.1", broker.port) as fourth:
            assert is_served(fourth)
        second.close()


def test_idle_connections_are_closed() -> None:
    """Who says nothing for connections.max.idle.ms is closed; who waits for an answer is not."""
    config = {"connections.max.idle.ms": "150"}
    with (
        Broker(topics={"t": 1}, config=config) as broker,
        connected(broker.bootstrap) as idle,
        connected(broker.bootstrap) as waiting,
    ):
        waiting.send(fetch("t", fetch_partition(), max_wait_ms=800), 12)
        assert is_served(idle)
        assert idle.is_closed()
        assert waiting.receive().responses[0].partitions[0].error_code == 0
        assert waiting.is_closed()


def test_socket_request_max_bytes() -> None:
    """A frame of that size is read, one that is a byte longer closes the connection before it is sent."""
    with Broker(config={"socket.request.max.bytes": "1000"}) as broker, connected(broker.bootstrap) as wire:
        body = header(18, 0)
        wire.send_bytes(frame(body + bytes(1000 - len(body))))
        wire.receive_frame()
        wire.send_bytes(struct.pack(">i", 1001))
        assert wire.is_closed()


def test_queued_max_request_bytes() -> None:
    """Large frames wait, unread, while others fill the memory for requests; small ones and other clients go on."""
    large = encode(produce("t", batch(bytes(600_000))), 9)
    with (
        Broker(topics={"t": 1}, config={"queued.max.request.bytes": "1000000"}) as broker,
        connected(broker.bootstrap) as holder,
        connected(broker.bootstrap) as waiting,
        connected(broker.bootstrap) as small,
    ):
        holder.send_bytes(large[:100_000])
        wait_until(lambda: broker.parts.server._pool.used_bytes > 0)
        waiting.send_bytes(large)
        assert waiting.is_silent()
        assert is_served(small)
        small.request(produce("t", batch(b"a" * 100)), 9)
        holder.send_bytes(large[100_000:])
        holder.receive_frame()
        waiting.receive_frame()
        wait_until(lambda: broker.parts.server._pool.used_bytes <= 1_000_000)


def test_who_holds_memory_without_need_gives_it_back_to_who_waits() -> None:
    """A client that sent a large frame and is quiet now does not keep another one waiting."""
    with (
        Broker(topics={"t": 1}, config={"queued.max.request.bytes": "1000000"}) as broker,
        connected(broker.bootstrap) as quiet,
        connected(broker.bootstrap) as next_one,
    ):
        quiet.request(produce("t", batch(bytes(600_000))), 9)
        assert broker.parts.server._pool.used_bytes > 600_000
        next_one.send(produce("t", batch(bytes(700_000))), 9)
        assert next_one.receive_frame(2.0)


def test_a_frame_larger_than_the_whole_pool_is_let_in_alone() -> None:
    """queued.max.request.bytes below the size of a request slows it down but does not shut it out."""
    with (
        Broker(topics={"t": 1}, config={"queued.max.request.bytes": "10000"}) as broker,
        connected(broker.bootstrap) as wire,
    ):
        answer = wire.request(produce("t", batch(bytes(600_000))), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_holder_that_leaves_gives_its_memory_back() -> None:
    """A client that stalls in a large frame and then vanishes does not keep the others out."""
    large = encode(produce("t", batch(bytes(600_000))), 9)
    with (
        Broker(topics={"t": 1}, config={"queued.max.request.bytes": "1000000"}) as broker,
        connected(broker.bootstrap) as waiting,
    ):
        with connected(broker.bootstrap) as holder:
            holder.send_bytes(large[:1000])
            wait_until(lambda: broker.parts.server._pool.used_bytes > 0)
            waiting.send_bytes(large)
            assert waiting.is_silent()
        waiting.receive_frame()


def test_large_buffers_are_given_back() -> None:
    """A connection that was quiet for a while needs no more than a small buffer."""
    with Broker(topics={"t": 1}) as broker, connected(broker.bootstrap) as wire:
        wire.request(produce("t", batch(bytes(600_000))), 9)
        pool = broker.parts.server._pool
        assert pool.used_bytes > 600_000
        for connection in broker.parts.server._connections:
            connection.shrink()
        assert pool.used_bytes == 0
        assert is_served(wire)
