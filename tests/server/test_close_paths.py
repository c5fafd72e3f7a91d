"""Connections that end, stall or wait in the middle of something give everything back, and others never notice."""

from __future__ import annotations

import os
import struct

import pytest

from kafkapy.testing import Broker
from tests.server.support import is_served, wait_until
from tests.server.test_listeners import needs_ipv6
from tests.support.requests import batch, fetch, fetch_partition, metadata, produce
from tests.support.wire_client import WireClient, connected, encode


def request_more_than_the_socket_takes(wire: WireClient) -> None:
    """Ask for 9 MB of records and do not read the answer."""
    for _ in range(10):
        wire.request(produce("t", batch(os.urandom(900_000))), 9)
    wire.send(fetch("t", fetch_partition(max_bytes=1 << 30), max_bytes=1 << 30), 12)
    assert not wire.is_silent()


def test_a_stop_with_a_reader_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is given up after the grace, and the stop is a clean one all the same."""
    monkeypatch.setattr("kafkapy.server.server.STOP_GRACE_S", 0.1)
    with Broker(topics={"t": 1}) as broker, connected(broker.bootstrap, receive_buffer=4096) as slow:
        request_more_than_the_socket_takes(slow)
        pool = broker.parts.logs.pool
        broker.stop()
        assert not pool.open_count
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()


def test_a_stop_waits_for_a_slow_reader() -> None:
    """Who takes the answer in time gets all of it."""
    with Broker(topics={"t": 1}) as broker, connected(broker.bootstrap, receive_buffer=4096) as slow:
        request_more_than_the_socket_takes(slow)
        broker.parts.request_stop_from_thread()
        assert len(slow.receive().responses[0].partitions[0].records) > 9_000_000
        assert slow.is_closed()


def test_garbage_does_not_delay_what_came_before_it() -> None:
    """A record and garbage in one packet: the record reaches a waiting consumer at once, not when its poll is over."""
    with (
        Broker(topics={"t": 1}) as broker,
        connected(broker.bootstrap) as consumer,
        connected(broker.bootstrap) as producer,
    ):
        consumer.send(fetch("t", fetch_partition(), max_wait_ms=60_000), 12)
        wait_until(lambda: len(broker.parts.waiting) == 1)
        producer.send_bytes(encode(produce("t", batch(b"a")), 9) + struct.pack(">i", -5))
        assert consumer.receive(2.0).responses[0].partitions[0].records
        producer.receive_frame()
        assert producer.is_closed()


def test_max_connections_holds_for_all_listeners_together() -> None:
    """When one connection closes, whichever listener has one waiting takes it, again and again."""
    config = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "max.connections": "1",
    }
    with Broker(config=config) as broker:
        ports = [port for _, port in broker.parts.bound.values()]
        before = WireClient("127.0.0.1", ports[0])
        assert is_served(before)
        for number in range(1, 5):
            after = WireClient("127.0.0.1", ports[number % 2])
            assert broker.parts.server.connection_count == 1
            before.close()
            assert is_served(after)
            before = after
        before.close()


@needs_ipv6
def test_max_connections_per_ip_on_a_listener_for_all_addresses() -> None:
    """IPv4 clients of an IPv6 socket are counted under one name when they come and when they go."""
    config = {"listeners": "PLAINTEXT://:0", "max.connections.per.ip": "2"}
    with Broker(config=config) as broker:
        for _ in range(5):
            with WireClient("127.0.0.1", broker.port) as wire:
                assert is_served(wire)
            wait_until(lambda: broker.parts.server.connection_count == 0)


def test_large_frames_do_not_wait_for_each_other() -> None:
    """Two connections that hold memory and need more of it: one after the other gets it."""
    some = encode(produce("t", batch(bytes(450_000))), 9)
    more = encode(produce("t", batch(bytes(700_000))), 9)
    with (
        Broker(topics={"t": 1}, config={"queued.max.request.bytes": "1000000"}) as broker,
        connected(broker.bootstrap) as first,
        connected(broker.bootstrap) as second,
    ):
        both = (first, second)
        for wire in both:
            wire.send_bytes(some)
            wire.receive_frame()
        for wire in both:
            wire.send_bytes(more[:100_000])
        pool = broker.parts.server._pool
        wait_until(lambda: pool.contended)
        for wire in both:
            wire.send_bytes(more[100_000:])
        for wire in both:
            wire.receive_frame(5.0)
        assert pool.used_bytes <= pool.size_bytes


def test_answers_that_nobody_takes_are_not_made() -> None:
    """Many small requests with large answers in one packet: the broker holds few of the answers, and all come once they are read."""
    count = 150
    with (
        Broker(topics={"wide": 1000}) as broker,
        connected(broker.bootstrap, receive_buffer=4096) as wire,
        connected(broker.bootstrap) as other,
    ):
        wire.send_bytes(encode(metadata("wide"), 5) * count)
        wait_until(lambda: any(one._draining for one in broker.parts.server._connections))
        assert is_served(other)
        (held,) = [
            sum(len(piece) for piece in connection._backlog)
            for connection in broker.parts.server._connections
            if connection.busy
        ]
        assert held < 1_000_000
        sizes = {len(wire.receive_frame()) for _ in range(count)}
        assert len(sizes) == 1 and sizes.pop() * count > 4_000_000


def test_more_polls_than_may_wait_are_answered_in_order() -> None:
    """Beyond the bound of open requests the rest waits in the buffer, and nothing is lost."""
    with Broker(topics={"t": 1}) as broker, connected(broker.bootstrap) as wire:
        wire.request(produce("t", batch(bytes(100_000))), 9)  # its buffer takes all of the following at once
        poll = fetch("t", fetch_partition(offset=1), max_wait_ms=60_000)
        wire.send_bytes(b"".join(encode(poll, 4, number) for number in range(200)))
        wait_until(lambda: len(broker.parts.waiting) >= 64)
        with connected(broker.bootstrap) as other:
            other.request(produce("t", batch(b"wakes")), 9)
        assert [int.from_bytes(wire.receive_frame()[:4]) for _ in range(200)] == list(range(200))
