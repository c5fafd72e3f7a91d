"""Bytes that are no request: the connection is closed without an answer, and nobody else notices."""

from __future__ import annotations

import logging
import os
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.api_versions import ApiVersionsRequest
from kafkapy.wire.record_batch import set_crc
from tests.server.support import is_served, wait_until
from tests.support.records import fetched
from tests.support.requests import batch, fetch, fetch_partition, metadata, produce
from tests.support.wire_client import Closed, WireClient, connected, encode, frame, header

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a topic `t`, and a compacted one."""
    with Broker(topics={"t": 1}) as running:
        running.create_topic("compacted", config={"cleanup.policy": "compact"})
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[WireClient]:
    with connected(broker.bootstrap) as client:
        yield client


@pytest.fixture(autouse=True)
def bystander(broker: Broker) -> Iterator[None]:
    """Another client, connected before the test and after it still served."""
    with connected(broker.bootstrap) as other:
        assert is_served(other)
        yield
        assert is_served(other)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 0),
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 104857601),
        struct.pack(">i", 2**31 - 1),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        TLS_HELLO,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        frame(b"\0"),
        frame(bytes(7)),
        frame(struct.pack(">hhih", 3, 1, 1, 9) + b"short"),
    ],
    ids=[
        "size 0", "size -1", "smallest size", "one byte too many", "largest size", "HTTP", "TLS", "SSH",
        "one byte", "half a header", "a client id that is cut",
    ],
)  # fmt: skip
def test_what_is_no_frame_closes_the_connection(wire: WireClient, data: bytes) -> None:
    """Nothing is answered, because whoever sent that would not understand it."""
    wire.send_bytes(data)
    assert wire.is_closed()


def test_a_refused_connection_leaves_a_line_in_the_log(
    broker: Broker, wire: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The line says who it was and what was wrong."""
    with caplog.at_level(logging.WARNING, logger="kafkapy"):
        wire.send_bytes(frame(header(999, 0)))
        assert wire.is_closed()
        wait_until(lambda: bool(caplog.records))
    (record,) = caplog.records
    assert "999" in record.getMessage() and record.__dict__["client"] == "127.0.0.1"


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 52, 58, 62, 93, 1000, 32767])
def test_unknown_keys_close_the_connection(wire: WireClient, key: int) -> None:
    """So do those that Kafka has removed and those that only controllers serve."""
    wire.send_bytes(frame(header(key, 0) + bytes(20)))
    assert wire.is_closed()


@pytest.mark.parametrize("key", [0, 1, 2, 3, 10, 11, 19, 22, 75])
def test_unknown_versions_close_the_connection(broker: Broker, key: int) -> None:
    """Only ApiVersions is answered in a version that nobody knows."""
    versions = API_BY_KEY[key].versions
    for version in (-1, versions.first - 1, API_BY_KEY[key].advertised.last + 1):
        with connected(broker.bootstrap) as wire:
            wire.send_bytes(frame(header(key, version) + bytes(20)))
            assert wire.is_closed()


@pytest.mark.parametrize("version", [1, 12])
def test_requests_that_are_cut_close_the_connection(broker: Broker, version: int) -> None:
    """At whatever byte the body ends, it is no request."""
    whole = encode(metadata("some-topic", create=True), version)[4:]
    for end in range(len(header(3, version)), len(whole)):
        with connected(broker.bootstrap) as wire:
            wire.send_bytes(frame(whole[:end]))
            assert wire.is_closed(), end


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (1, struct.pack(">i", 2**31 - 1)),
        (1, struct.pack(">i", 1000)),
        (1, struct.pack(">ih", 1, 32767)),
        (1, struct.pack(">ih", 1, -1)),
        (9, b"\0\xff\xff\xff\xff\x0f"),
        (9, b"\0\xff\xff\xff\xff\xff\xff\x01"),
        (9, b"\0\x02\xff\xff\xff\xff\x0f"),
        (9, b"\0\x01\0\0\0\xff\xff\xff\xff\x0f"),
        (9, b"\0\x01\0\0\0\x01\x63\x7fx"),
        (9, b"\x01\x05\x7f"),
    ],
    ids=[
        "array of 2^31", "array of 1000", "long string", "null string", "compact array of 2^32", "endless varint",
        "compact string of 2^32", "2^32 tags", "tag past the end", "header tag past the end",
    ],
)  # fmt: skip
def test_hostile_lengths_close_the_connection(wire: WireClient, version: int, body: bytes) -> None:
    """A length that the bytes do not bear out allocates nothing."""
    wire.send_bytes(frame(header(3, version) + body))
    assert wire.is_closed()


def test_trailing_bytes_and_strange_client_ids_are_tolerated(wire: WireClient) -> None:
    """As Kafka does: bytes after a request are ignored, and a client id is only a name."""
    wire.send_bytes(frame(encode(metadata(), 9)[4:] + b"extra"))
    wire.receive_frame()
    for client_id in (b"\xff\xff", b"\xff\xfe", b"\0\0", b"\0\x02\xff\xfe"):
        wire.send_bytes(frame(struct.pack(">hhi", 18, 0, 1) + client_id))
        assert wire.receive_frame()[:4] == struct.pack(">i", 1)


def test_random_bytes(broker: Broker) -> None:
    """Noise is refused or, where by chance it is a request, answered; the broker lives on."""
    source = random.Random(1)
    for _ in range(200):
        with connected(broker.bootstrap) as wire:
            key, version = source.choice([0, 1, 2, 3, 8, 9, 10, 11, 18, 19, 22, 32, 60, 75]), source.randrange(-1, 14)
            noise = source.randbytes(source.randrange(60))
            if source.random() < 0.3:
                wire.send_bytes(source.randbytes(4) + noise)
            else:
                wire.send_bytes(frame(struct.pack(">hhih", key, version, 1, 0) + noise))
            wire.sock.shutdown(socket.SHUT_WR)
            wire.is_closed(1)


def test_what_comes_before_the_garbage_is_answered(wire: WireClient) -> None:
    """Answers that are owed still leave before the connection is closed."""
    wire.send(ApiVersionsRequest(), 0)
    wire.send_bytes(struct.pack(">i", -1))
    assert wire.receive().api_keys
    assert wire.is_closed()


def test_frames_arrive_in_any_pieces(wire: WireClient) -> None:
    """A frame may come byte by byte, and several in one piece."""
    data = encode(metadata("t"), 9, 1)
    for at in range(len(data)):
        wire.send_bytes(data[at : at + 1])
    assert wire.receive_frame()[:4] == struct.pack(">i", 1)
    wire.send_bytes(b"".join(encode(metadata("t"), 9, number) for number in range(50)))
    assert [struct.unpack(">i", wire.receive_frame()[:4])[0] for _ in range(50)] == list(range(50))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:61] + b"\xff" * (len(data) - 61),
        lambda data: data[:61] + b"\x01" + data[62:],
        lambda data: data[:-1] + b"\x7f",
    ],
    ids=["endless varints", "a negative length", "headers that are not there"],
)
def test_hostile_records(wire: WireClient, spoil: object) -> None:
    """Where records have to be opened, as on a compacted topic, damage is refused like any other."""
    assert callable(spoil)
    data = bytearray(spoil(batch(b"value", b"other", key=b"k")))
    set_crc(data, 0, len(data))
    answer = wire.request(produce("compacted", bytes(data)), 9).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_a_decompression_bomb(wire: WireClient) -> None:
    """A batch that claims more records than its codec may unpack to is refused before anything is unpacked."""
    data = bytearray(batch(b"v", key=b"k", codec=1))
    struct.pack_into(">i", data, 23, 2**31 - 2)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    set_crc(data, 0, len(data))
    for topic in ("t", "compacted"):
        answer = wire.request(produce(topic, bytes(data)), 9).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.INVALID_RECORD


def test_a_bomb_of_zeros(wire: WireClient) -> None:
    """A small batch that unpacks to gigabytes is refused at the bound, not when memory is gone."""
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(300 << 20))
    data = bytearray(batch(b"v", key=b"k", codec=4)[:61] + bomb)
    struct.pack_into(">i", data, 8, len(data) - 12)
    set_crc(data, 0, len(data))
    answer = wire.request(produce("compacted", bytes(data)), 9).responses[0].partition_responses[0]
    assert answer.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


def test_half_a_frame_waits_without_harm(broker: Broker) -> None:
    """Clients that stop in the middle of a frame hold their own connection only."""
    halves = [WireClient("127.0.0.1", broker.port) for _ in range(20)]
    for number, half in enumerate(halves):
        half.send_bytes(encode(metadata("t"), 9)[: 3 + number])
    with connected(broker.bootstrap) as wire:
        assert is_served(wire)
    for half in halves:
        half.close()


def test_connections_that_are_reset(broker: Broker) -> None:
    """A client that vanishes with answers under way is forgotten."""
    before = broker.parts.server.connection_count
    for _ in range(20):
        with connected(broker.bootstrap) as wire:
            wire.send(fetch("t", fetch_partition(), max_wait_ms=60_000), 12)
            wire.send(metadata("t"), 9)
            wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: broker.parts.server.connection_count <= before)


def test_a_slow_reader_is_alone_with_it(broker: Broker) -> None:
    """Whoever does not read its answers is not read from either, others go on, and in the end nothing is missing."""
    value = os.urandom(700_000)
    with connected(broker.bootstrap, receive_buffer=65536) as slow, connected(broker.bootstrap) as quick:
        broker.create_topic("large")
        for _ in range(20):
            quick.request(produce("large", batch(value)), 9)
        for _ in range(5):
            slow.send(fetch("large", fetch_partition(max_bytes=1 << 30), max_bytes=50 << 20), 12)
        wait_until(lambda: any(one._draining for one in broker.parts.server._connections))
        for _ in range(50):
            assert is_served(quick)
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        for _ in range(5):
            assert len(slow.receive().responses[0].partitions[0].records) > 20 * len(value)
        assert is_served(slow)
        assert len(fetched(quick, "large")) == 20


def test_answers_that_nobody_reads_do_not_pile_up(broker: Broker) -> None:
    """The broker stops reading requests when the answers do not leave, so its memory does not grow with the client's greed."""
    broker.create_topic("wide", 100)
    requests = encode(metadata("wide"), 9) * 5000
    with connected(broker.bootstrap, receive_buffer=4096) as greedy:
        greedy.sock.setblocking(False)
        greedy.sock.send(requests)
        connections = broker.parts.server._connections
        wait_until(lambda: any(one._draining for one in connections))
        (connection,) = (one for one in connections if one._draining)
        assert 0 < sum(len(piece) for piece in connection._backlog) < 4 << 20
        assert len(connection._view) <= 1 << 20


def test_a_closed_connection_raises_in_the_test_client(wire: WireClient) -> None:
    """The helper of these tests tells an end from an answer."""
    wire.send_bytes(frame(bytes(3)))
    with pytest.raises(Closed):
        wire.receive_frame()
