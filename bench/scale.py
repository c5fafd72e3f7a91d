"""Large numbers of what mostly does nothing: idle connections, idle partitions; and a broker that does nothing at all."""

from __future__ import annotations

import resource
import socket
import time

from bench.peers import Peer
from bench.raw import (
    BenchError,
    connect,
    create_topic,
    one_record,
    percentile,
    produce_first,
    produce_request,
    round_trips,
    start_and_wait,
)
from bench.sizes import Sizes
from bench.workloads import MS
from kafkapy.wire.messages.api_versions import ApiVersionsRequest

SETTLE_S = 2.0
TOPIC_PARTITIONS = 1_000
PARTITIONS_PER_REQUEST = 100
_API_VERSIONS_KEY = 18


def idle(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Start a broker on an empty folder, and let it rest."""
    seconds = start_and_wait(peer)
    time.sleep(SETTLE_S)
    return {"start_s": seconds, "idle_rss_mb": peer.rss_mb()}


def connections(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Connections that have said who they are and then keep silent, and somebody who works beside them."""
    before = percentile(round_trips(peer, "foreground", sizes.seconds), 0.5)
    rss = peer.rss_mb()
    sockets = []
    try:
        for index in range(sizes.idle_connections):
            sockets.append(socket.create_connection(("127.0.0.1", peer.port), timeout=30))
            _say_hello(sockets[-1], index)
        for sock in sockets:
            if not sock.recv(65_536):
                raise BenchError("the broker has closed an idle connection")
        time.sleep(SETTLE_S)
        beside = percentile(round_trips(peer, "foreground", sizes.seconds), 0.5)
        added = peer.rss_mb() - rss
    finally:
        for sock in sockets:
            sock.close()
    return {
        "connections_rss_mb": added,
        "connections_rtt_before_ms": before * MS,
        "connections_rtt_beside_ms": beside * MS,
    }


def _say_hello(sock: socket.socket, index: int) -> None:
    """ApiVersions, as every client begins. Layout: int32 size, int16 key, int16 version, int32 id, int16 -1, body."""
    body = ApiVersionsRequest().encode(0)
    frame = b"".join(number.to_bytes(size, "big") for number, size in ((_API_VERSIONS_KEY, 2), (0, 2), (index, 4)))
    frame += b"\xff\xff" + body
    sock.sendall(len(frame).to_bytes(4, "big") + frame)


def allow_files(count: int) -> None:
    """Both sides need a descriptor per connection; brokers inherit our limit, so it is raised before they start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 500:
        raise BenchError(f"{count} connections need more open files than this system allows ({hard})")
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def many_partitions(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Write to very many partitions, stop cleanly, start: how long that takes and what the broker weighs then."""
    start_and_wait(peer)
    connection = connect(peer, timeout_s=300)
    batch = one_record()
    left = sizes.many_partitions
    for number in range(-(-left // TOPIC_PARTITIONS)):
        count = min(left, TOPIC_PARTITIONS)
        left -= count
        create_topic(connection, f"many-{number}", count)
        for first in range(0, count, PARTITIONS_PER_REQUEST):
            wanted = range(first, min(first + PARTITIONS_PER_REQUEST, count))
            produce_first(connection, produce_request(f"many-{number}", wanted, batch))
    connection.close()
    peer.stop()
    seconds = start_and_wait(peer)
    time.sleep(SETTLE_S)
    return {"many_start_s": seconds, "many_rss_mb": peer.rss_mb(), "many_files": float(peer.open_files())}
