"""What the group coordinator is asked to bear: one large group, very many small ones, commits under load, a million offsets."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Event

from bench.members import Fleet
from bench.peers import Peer
from bench.raw import BenchError, connect, percentile, start_and_wait
from bench.sizes import Sizes
from bench.workloads import BULK_PARTITIONS, MS, new_topic, produce_many
from kafkapy.client.connection import BrokerConnection
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

SETTLING_HEARTBEAT_S = 0.5
HEARTBEAT_S = 3.0
COMMIT_INTERVAL_S = 0.01
OFFSETS_PER_GROUP = 1_000

# The newest versions that name topics instead of giving their ids.
_COMMIT_VERSION = 8
_FETCH_VERSION = 8

_TIMEOUT_S = 120.0
_COORDINATOR_CODES_TO_RETRY = (14, 15, 16)


def one_group(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """All members join at once; from the last one's first join until all have their share of the same generation."""
    topic = new_topic(peer, "group", sizes.group_members)
    _coordinate(peer)
    fleet = Fleet(topic, sizes.group_members, SETTLING_HEARTBEAT_S)
    for _ in range(sizes.group_members):
        fleet.add(peer, f"of-{topic}")
    for member in fleet.members:
        fleet.join(member)
    begun = time.monotonic()
    fleet.run(fleet.is_settled, _TIMEOUT_S)
    seconds = time.monotonic() - begun
    if len({member.assigned for member in fleet.members}) != sizes.group_members:
        raise BenchError("not every member got a partition of its own")
    fleet.close()
    return {"group_settle_s": seconds}


def heartbeats(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Very many groups of one member each do nothing but heartbeat."""
    topic = new_topic(peer, "heartbeats", 1)
    _coordinate(peer)
    fleet = Fleet(topic, 1, HEARTBEAT_S)
    pace_s = HEARTBEAT_S / sizes.heartbeating_groups
    for index in range(sizes.heartbeating_groups):
        fleet.add(peer, f"{topic}-{index}")
    begun = time.monotonic()
    for index, member in enumerate(fleet.members):
        # Spread over the interval, so that the heartbeats are, too.
        until = begun + index * pace_s
        fleet.run(partial(_is_past, until), _TIMEOUT_S)
        fleet.join(member)
    fleet.run(fleet.is_stable, _TIMEOUT_S)
    cpu, done, begun = peer.cpu_s(), fleet.heartbeats, time.monotonic()
    until = begun + sizes.heartbeat_seconds
    fleet.run(partial(_is_past, until), 2 * sizes.heartbeat_seconds)
    seconds = time.monotonic() - begun
    if fleet.heartbeats - done < 0.8 * sizes.heartbeating_groups * seconds / HEARTBEAT_S:
        raise BenchError(f"only {fleet.heartbeats - done} heartbeats in {seconds:.1f} s")
    fleet.close()
    return {"heartbeat_cpu_percent": 100 * (peer.cpu_s() - cpu) / seconds}


def _is_past(moment: float) -> bool:
    return time.monotonic() >= moment


def commits_beside_bulk(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """A hundred commits a second while another process produces as fast as it can.

    On a machine with few cores much of a commit's time is waiting for one, which no broker can help. So a process that only sends back what it gets
    is asked in turns with the broker.
    """
    topic = new_topic(peer, "commits", BULK_PARTITIONS)
    connection = _coordinate(peer)
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    stop = context.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        echo = context.Process(target=_echo, args=(server,), daemon=True)
        echo.start()
        echoing = socket.create_connection(server.getsockname())
    bulk = context.Process(target=_produce_until, args=(peer.bootstrap, topic, started, stop), daemon=True)
    bulk.start()
    try:
        if not started.wait(_TIMEOUT_S):
            raise BenchError("the bulk producer did not start")
        time.sleep(0.5)
        echoed, taken = _in_turns(
            sizes.seconds,
            partial(_ask_echo, echoing),
            lambda: _commit(connection, "beside-bulk", topic, range(1)),
        )
        if not bulk.is_alive():
            raise BenchError("the bulk producer has ended early")
    finally:
        stop.set()
        bulk.join(_TIMEOUT_S)
        connection.close()
        echoing.close()
        echo.join(_TIMEOUT_S)
    return {
        "commit_p50_ms": percentile(taken, 0.5) * MS,
        "commit_p99_ms": percentile(taken, 0.99) * MS,
        "echo_p99_ms": percentile(echoed, 0.99) * MS,
    }


def _in_turns(seconds: float, *actions: Callable[[], object]) -> list[list[float]]:
    """Carry the actions out in turns, at a steady pace; how long each took."""
    taken: list[list[float]] = [[] for _ in actions]
    begun = due = time.monotonic()
    while due < begun + seconds:
        for action, times in zip(actions, taken, strict=True):
            time.sleep(max(0.0, due - time.monotonic()))
            sent = time.monotonic()
            action()
            times.append(time.monotonic() - sent)
            due += COMMIT_INTERVAL_S / len(actions)
    return taken


def _ask_echo(connection: socket.socket) -> None:
    connection.sendall(b"echo")
    if not connection.recv(4):
        raise BenchError("the echoing process has ended early")


def _echo(server: socket.socket) -> None:
    """Body of the echoing process: one connection, until its other end is closed."""
    connection, _ = server.accept()
    while data := connection.recv(4096):
        connection.sendall(data)


def _produce_until(bootstrap: str, topic: str, started: Event, stop: Event) -> None:
    """Body of the bulk process: rounds of bulk until told to stop."""
    started.set()
    while not stop.is_set():
        produce_many(bootstrap, topic, 50_000, 1000)


def million_offsets(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Commit very many offsets, stop, start: how long until the groups of every offsets partition are answered for."""
    start_and_wait(peer)
    topic = new_topic(peer, "offsets", OFFSETS_PER_GROUP)
    connection = _coordinate(peer)
    groups = [f"group-{index}" for index in range(sizes.committed_offsets // OFFSETS_PER_GROUP)]
    for group in groups:
        _commit(connection, group, topic, range(OFFSETS_PER_GROUP))
    connection.close()
    peer.stop()
    begun = time.monotonic()
    start_and_wait(peer)
    connection = connect(peer)
    for group in groups:
        while not _has_offset(connection, group, topic):
            if time.monotonic() > begun + _TIMEOUT_S:
                raise BenchError(f"the offsets of {group} were not served in time")
            time.sleep(0.01)
    seconds = time.monotonic() - begun
    connection.close()
    return {"million_ready_s": seconds}


def _coordinate(peer: Peer) -> BrokerConnection:
    """A connection to a broker that coordinates groups: it has made its offsets topic."""
    connection = connect(peer)
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        answer = connection.request(FindCoordinatorRequest(coordinator_keys=["any"]))
        code = answer.coordinators[0].error_code
        if not code:
            return connection
        if code not in _COORDINATOR_CODES_TO_RETRY or time.monotonic() > deadline:
            raise BenchError(f"FindCoordinator answered {code}")
        time.sleep(0.05)


def _commit(connection: BrokerConnection, group: str, topic: str, partitions: range) -> None:
    """Commit from outside the group; tried again while the coordinator still loads."""
    rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in partitions]
    for row in rows:
        row.committed_metadata = ""
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)])
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        answer = connection.request(request, version=_COMMIT_VERSION)
        codes = {row.error_code for row in answer.topics[0].partitions}
        if codes == {0}:
            return
        if not codes <= set(_COORDINATOR_CODES_TO_RETRY) or time.monotonic() > deadline:
            raise BenchError(f"OffsetCommit answered {sorted(codes)}")
        time.sleep(0.01)


def _has_offset(connection: BrokerConnection, group: str, topic: str) -> bool:
    """Whether the coordinator answers for the group. An offset that is gone raises."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[OFFSETS_PER_GROUP - 1])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    answer = connection.request(request, version=_FETCH_VERSION).groups[0]
    if answer.error_code in _COORDINATOR_CODES_TO_RETRY:
        return False
    if answer.error_code:
        raise BenchError(f"OffsetFetch answered {answer.error_code}")
    row = answer.topics[0].partitions[0]
    if row.error_code or row.committed_offset != 7:
        raise BenchError(f"{group} has lost an offset: error {row.error_code}, offset {row.committed_offset}")
    return True
