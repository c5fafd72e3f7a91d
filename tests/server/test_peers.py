"""The asking side of connections: pipelining, broken and late answers, reconnecting."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import trio

from kafkapy.server.peers import Peer
from kafkapy.server.readiness import Readiness
from kafkapy.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkapy.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkapy.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

VERSIONS = [ApiVersion(api_key=1, min_version=4, max_version=15), ApiVersion(api_key=12, min_version=0, max_version=3)]

# What watches the sockets of the test that runs; closed when its tasks have ended.
USED: list[Readiness] = []


class FakeNode:
    """Accepts connections, and answers each request by what `answer` makes of its API key and version."""

    def __init__(self, nursery: trio.Nursery, answer: Callable[[int, int], bytes | None]) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.address = ("127.0.0.1", int(self.listening.getsockname()[1]))
        self.answer = answer
        self.asked: list[tuple[int, int]] = []
        self.connections = 0
        nursery.start_soon(self._accept, nursery)

    async def _accept(self, nursery: trio.Nursery) -> None:
        with trio.socket.from_stdlib_socket(self.listening) as listening:
            while True:
                sock, _ = await listening.accept()
                self.connections += 1
                nursery.start_soon(self._serve, trio.SocketStream(sock))

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            await self._answer_all(stream)

    async def _answer_all(self, stream: trio.SocketStream) -> None:
        buffer = b""
        async for data in stream:
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + struct.unpack_from(">i", buffer)[0]:
                size = struct.unpack_from(">i", buffer)[0]
                key, version, correlation_id = struct.unpack_from(">hhi", buffer, 4)
                buffer = buffer[4 + size :]
                if key == 18:
                    body: bytes | None = ApiVersionsResponse(api_keys=VERSIONS).encode(0)
                else:
                    self.asked.append((key, version))
                    body = self.answer(key, version)
                if body is None:
                    return
                if body:
                    await stream.send_all(struct.pack(">ii", len(body) + 4, correlation_id) + body)


def peer_of(node: FakeNode, nursery: trio.Nursery) -> Peer:
    """A peer that knows where the node is."""
    return peer_at(lambda: node.address, nursery)


def peer_at(address: Callable[[], Any], nursery: trio.Nursery) -> Peer:
    """A peer with the loop's own readiness beside it."""
    readiness = Readiness()
    USED.append(readiness)
    nursery.start_soon(readiness.run)
    return Peer("node", address, nursery, readiness, client_id="test", settle=lambda: None)


class Answers:
    """What came back, in order; to be waited for."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._more = trio.Event()

    def __call__(self, answer: Any) -> None:
        self.all.append(answer)
        self._more.set()

    async def count(self, number: int) -> list[Any]:
        """Until so many have come."""
        with trio.fail_after(5):
            while len(self.all) < number:
                self._more = trio.Event()
                await self._more.wait()
        return self.all


def run(test: Callable[[trio.Nursery], Any]) -> None:
    """Run a test's coroutine with a nursery that ends with it."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await test(nursery)
            nursery.cancel_scope.cancel()

    trio.run(main)
    while USED:
        USED.pop().close()


def test_requests_are_pipelined_and_asked_in_the_newest_common_version() -> None:
    """Many requests leave before an answer comes; a peer that is older is asked in its newest version."""

    async def test(nursery: trio.Nursery) -> None:
        node = FakeNode(nursery, lambda key, version: HeartbeatResponse(error_code=7).encode(version))
        peer, answers = peer_of(node, nursery), Answers()
        for _ in range(50):
            peer.ask(HeartbeatRequest(group_id="g", member_id="m"), 4, answers)
        assert answers.all == []
        assert [answer.error_code for answer in await answers.count(50)] == [7] * 50
        assert node.asked == [(12, 3)] * 50
        assert node.connections == 1

    run(test)


def test_records_are_views_of_the_receive_buffer_during_done() -> None:
    """An answer larger than the buffer arrives whole, and what `done` sees is no copy."""
    content = bytes(range(256)) * 8192

    def answer(key: int, version: int) -> bytes:
        partition = PartitionData(records=content, aborted_transactions=None)
        topic = FetchableTopicResponse(topic="t", topic_id=bytes(16), partitions=[partition])
        return b"\0" + FetchResponse(responses=[topic]).encode(version)

    async def test(nursery: trio.Nursery) -> None:
        peer = peer_of(FakeNode(nursery, answer), nursery)
        seen: list[tuple[type, bool]] = []
        finished = trio.Event()

        def done(response: Any) -> None:
            records = response.responses[0].partitions[0].records
            seen.append((type(records), records == content))
            if len(seen) == 3:
                finished.set()
            else:
                peer.ask(FetchRequest(), 15, done)

        peer.ask(FetchRequest(), 15, done)
        with trio.fail_after(5):
            await finished.wait()
        assert seen == [(memoryview, True)] * 3

    run(test)


def test_a_broken_connection_answers_with_none_and_is_made_again() -> None:
    """Whoever waits is told at once; the next request goes over a new connection."""
    answers_left = [b"", None]

    def answer(key: int, version: int) -> bytes | None:
        return answers_left.pop() if answers_left else HeartbeatResponse().encode(version)

    async def test(nursery: trio.Nursery) -> None:
        node = FakeNode(nursery, answer)
        peer, answers = peer_of(node, nursery), Answers()
        peer.ask(HeartbeatRequest(), 3, answers)
        assert await answers.count(1) == [None]
        answers_left.clear()
        peer.ask(HeartbeatRequest(), 3, answers)
        assert (await answers.count(2))[1] is not None
        assert node.connections == 2

    run(test)


def test_a_late_answer_breaks_the_connection() -> None:
    """Everything behind it would be late too."""
    silent = [True]

    async def test(nursery: trio.Nursery) -> None:
        node = FakeNode(nursery, lambda key, version: b"" if silent[0] else HeartbeatResponse().encode(version))
        peer, answers = peer_of(node, nursery), Answers()
        peer.ask(HeartbeatRequest(), 3, answers, timeout_ms=20)
        peer.ask(HeartbeatRequest(), 3, answers, timeout_ms=60_000)
        assert await answers.count(2) == [None, None]
        silent[0] = False
        peer.ask(HeartbeatRequest(), 3, answers)
        assert (await answers.count(3))[2] is not None

    run(test)


def test_nobody_there_is_no_answer() -> None:
    """A refused connection, a node that is not known, and a peer that was closed."""

    async def test(nursery: trio.Nursery) -> None:
        unused = socket.create_server(("127.0.0.1", 0))
        address = unused.getsockname()[:2]
        unused.close()
        for place in (lambda: address, lambda: None):
            peer, answers = peer_at(place, nursery), Answers()
            peer.ask(HeartbeatRequest(), 3, answers)
            assert await answers.count(1) == [None]
            peer.close()
            peer.ask(HeartbeatRequest(), 3, answers)
            assert await answers.count(2) == [None, None]

    run(test)


def test_what_the_peer_does_not_serve_is_not_asked() -> None:
    """A request that the peer has no version for is answered with None, and the connection stays."""

    async def test(nursery: trio.Nursery) -> None:
        node = FakeNode(nursery, lambda key, version: HeartbeatResponse().encode(version))
        peer, answers = peer_of(node, nursery), Answers()
        peer.ask(FetchRequest(), 3, answers)
        assert await answers.count(1) == [None]
        peer.ask(HeartbeatRequest(), 3, answers)
        assert (await answers.count(2))[1] is not None
        assert node.connections == 1

    run(test)


def test_garbage_breaks_the_connection() -> None:
    """An answer that cannot be read, and one of an impossible size."""
    garbage = [b"\xff" * 3, b""]

    async def test(nursery: trio.Nursery) -> None:
        node = FakeNode(nursery, lambda key, version: garbage[0])
        peer, answers = peer_of(node, nursery), Answers()
        peer.ask(HeartbeatRequest(), 3, answers)
        assert await answers.count(1) == [None]

    run(test)


def test_a_fault_of_ours_ends_one_connection_only() -> None:
    """Who asks again is answered on the next one."""
    faults, answers = [RuntimeError("ours")], Answers()

    def settle() -> None:
        if answers.all and faults:
            raise faults.pop()

    async def test(nursery: trio.Nursery) -> None:
        node = FakeNode(nursery, lambda key, version: HeartbeatResponse().encode(version))
        readiness = Readiness()
        USED.append(readiness)
        nursery.start_soon(readiness.run)
        peer = Peer("node", lambda: node.address, nursery, readiness, client_id="test", settle=settle)
        for number in (1, 2, 3):
            peer.ask(HeartbeatRequest(), 3, answers)
            await answers.count(number)
        assert answers.all[0] is not None and answers.all[2] is not None
        assert node.connections == 2

    run(test)
