"""Fetch: every version, limits, isolation, epochs, ids, sessions."""

from __future__ import annotations

from typing import Any

from compat_tests.differential.cases import case
from compat_tests.differential.probe import UNKNOWN_ID, Probe
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.support.requests import batch, fetch, fetch_partition, produce


def filled(probe: Probe, name: str, partitions: int = 1, batches: int = 3) -> bytes:
    """A topic with batches of two records of 300 bytes in each partition."""
    topic_id = probe.create_topic(name, partitions)
    for index in range(partitions):
        for _ in range(batches):
            probe.quietly(produce(name, batch(b"x" * 300, b"y" * 300), index=index), 9)
    return topic_id


@case
def fetch_every_version(probe: Probe) -> None:
    topic_id = filled(probe, "f-versions")

    def request(version: int, offset: int, **options: object) -> FetchRequest:
        return fetch(topic_id if version >= 13 else "f-versions", fetch_partition(offset=offset), **options)

    for offset in (0, 1, 5, 6):
        probe.ask_all(f"offset {offset}", lambda version, offset=offset: request(version, offset))
        probe.ask_all(f"committed {offset}", lambda version, offset=offset: request(version, offset, isolation_level=1))


@case
def fetch_out_of_range(probe: Probe) -> None:
    filled(probe, "f-range")
    for offset in (-1, -2, 7, 1000, 2**62):
        for version in (4, 9, 12):
            probe.ask(f"offset {offset}", fetch("f-range", fetch_partition(offset=offset), max_wait_ms=5000), version)
    probe.ask("isolation 7", fetch("f-range", fetch_partition(), isolation_level=7), 12)
    probe.ask("isolation -1", fetch("f-range", fetch_partition(), isolation_level=-1), 12)


@case
def fetch_unknown(probe: Probe) -> None:
    topic_id = filled(probe, "f-known")
    for version in (4, 9, 12):
        probe.ask("topic", fetch("f-nope", fetch_partition(), max_wait_ms=5000), version)
        probe.ask("partition", fetch("f-known", fetch_partition(9), max_wait_ms=5000), version)
        probe.ask("negative partition", fetch("f-known", fetch_partition(-1)), version)
        probe.ask("invalid name", fetch("f known", fetch_partition()), version)
        probe.ask("empty name", fetch("", fetch_partition()), version)
    for version in (13, 15, 18):
        probe.ask("id", fetch(UNKNOWN_ID, fetch_partition(), max_wait_ms=5000), version)
        probe.ask("zero id", fetch(bytes(16), fetch_partition()), version)
        probe.ask("partition by id", fetch(topic_id, fetch_partition(9)), version)
    both = [
        FetchTopic(topic="f-nope", partitions=[fetch_partition()]),
        FetchTopic(topic="f-known", partitions=[fetch_partition()]),
    ]
    probe.ask("one good", FetchRequest(max_wait_ms=0, min_bytes=1, topics=both), 12)


@case
def fetch_limits(probe: Probe) -> None:
    filled(probe, "f-limits", 3)
    for partition_max in (0, 1, 600, 700, 1400, 10000, -1):
        for maximum in (0, 1, 1000, 1500, 100000, -1):
            parts = [fetch_partition(index, max_bytes=partition_max) for index in (2, 0, 1)]
            probe.ask(f"partition {partition_max} all {maximum}", fetch("f-limits", *parts, max_bytes=maximum), 12)
    empty_first = [
        fetch_partition(0, offset=6, max_bytes=1),
        fetch_partition(1, max_bytes=1),
        fetch_partition(2, max_bytes=1),
    ]
    probe.ask("the first is empty", fetch("f-limits", *empty_first, max_bytes=1), 12)
    wrong_first = [fetch_partition(0, offset=60), fetch_partition(1, max_bytes=1), fetch_partition(2, max_bytes=1)]
    probe.ask("the first is wrong", fetch("f-limits", *wrong_first, max_bytes=1), 12)


@case
def fetch_waiting(probe: Probe) -> None:
    filled(probe, "f-wait", 2)
    end = fetch_partition(offset=6)
    probe.ask("short wait", fetch("f-wait", end, max_wait_ms=50), 12)
    probe.ask("min bytes 0", fetch("f-wait", end, max_wait_ms=60_000, min_bytes=0), 12, timeout_s=1)
    probe.ask("min bytes negative", fetch("f-wait", end, max_wait_ms=60_000, min_bytes=-1), 12, timeout_s=1)
    probe.ask("no wait", fetch("f-wait", end, max_wait_ms=0), 12, timeout_s=1)
    probe.ask("wait negative", fetch("f-wait", end, max_wait_ms=-1), 12, timeout_s=1)
    probe.ask(
        "an unknown partition does not end it",
        fetch("f-wait", end, fetch_partition(7), max_wait_ms=60_000),
        12,
        timeout_s=1,
    )
    probe.ask("too many bytes wanted", fetch("f-wait", fetch_partition(), max_wait_ms=50, min_bytes=1_000_000), 12)
    probe.ask("no partitions", fetch("f-wait", max_wait_ms=60_000), 12, timeout_s=1)
    probe.ask(
        "a topic without partitions",
        FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="f-wait")]),
        12,
        timeout_s=1,
    )
    probe.wire.send(fetch("f-wait", end, max_wait_ms=10_000), 12)
    with probe.open() as other:
        other.request(produce("f-wait", batch(b"news")), 9)
    probe.note("woken", probe.wire.receive().to_json(12))


@case
def fetch_epochs(probe: Probe) -> None:
    topic_id = filled(probe, "f-epoch")
    for epoch in (-1, 0, 1, 5, -2):
        for version in (9, 12):
            part = fetch_partition(current_leader_epoch=epoch)
            probe.ask(f"current epoch {epoch}", fetch("f-epoch", part), version)
        probe.ask(f"current epoch {epoch}", fetch(topic_id, fetch_partition(current_leader_epoch=epoch)), 16)
    for epoch in (-1, 0, 1, 5, -2):
        for offset in (0, 3, 6, 100):
            part = fetch_partition(offset=offset, last_fetched_epoch=epoch)
            probe.ask(f"last epoch {epoch} offset {offset}", fetch("f-epoch", part, max_wait_ms=5000, min_bytes=0), 12)


@case
def fetch_as_a_replica(probe: Probe) -> None:
    topic_id = filled(probe, "f-replica")
    for replica in (1, 2, -2, 99):
        probe.ask(f"replica {replica}", fetch("f-replica", fetch_partition(), replica_id=replica), 12)
        state = ReplicaState(replica_id=replica)
        probe.ask(f"replica {replica}", fetch(topic_id, fetch_partition(), replica_state=state), 15)


@case
def fetch_duplicates(probe: Probe) -> None:
    filled(probe, "f-twice")
    parts = [fetch_partition(offset=0), fetch_partition(offset=4)]
    probe.ask("a partition twice", fetch("f-twice", *parts), 12)
    topics = [FetchTopic(topic="f-twice", partitions=[part]) for part in parts]
    probe.ask("a topic twice", FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)


class _Session:
    """One client's session in one version of Fetch."""

    def __init__(self, probe: Probe, version: int, name: str | bytes) -> None:
        self._probe = probe
        self._version = version
        self._name = name
        self.id = 0

    def open(self, label: str, *parts: FetchPartition, **options: Any) -> None:
        request = fetch(self._name, *parts, session_epoch=0, **options)
        self.id = self._probe.ask(label, request, self._version).session_id

    def go_on(self, label: str, epoch: int, *parts: FetchPartition, **options: Any) -> None:
        request = fetch(self._name, *parts, **{"session_id": self.id, "session_epoch": epoch, **options})
        self._probe.ask(label, request, self._version)

    def append(self, index: int, *values: bytes) -> None:
        """Somebody else produces."""
        with self._probe.open() as other:
            other.request(produce("f-session", batch(*values), index=index), 9)


@case
def fetch_sessions(probe: Probe) -> None:
    topic_id = filled(probe, "f-session", 3)
    for version in (7, 12, 13):
        session = _Session(probe, version, topic_id if version >= 13 else "f-session")
        _follow(session)
        _lose(session)
        _take_turns(session)
        unknown = FetchTopic(topic_id=UNKNOWN_ID) if version >= 13 else FetchTopic(topic="f-session-not-yet")
        unknown.partitions = [fetch_partition()]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[unknown])
        session.id = probe.ask("unknown topic in a session", request, version).session_id
        session.go_on("unknown topic again", 1, max_wait_ms=50)


def _follow(session: _Session) -> None:
    session.open("open", *(fetch_partition(index, offset=6) for index in range(3)))
    session.go_on("nothing new", 1)
    session.append(1, b"a")
    session.go_on("one has news", 2)
    session.go_on("it still has", 3)
    session.go_on("moved on", 4, fetch_partition(1, offset=7))
    session.go_on("forget two", 5, forget=[0, 2])
    session.append(0, b"a")
    session.go_on("the forgotten has news", 6)
    session.go_on("add it again", 7, fetch_partition(0, offset=6))
    session.go_on("wrong epoch", 20)
    session.go_on("the right one still", 8)
    session.go_on("forget what is not there", 9, forget=[17])
    session.go_on("add one that is not there", 10, fetch_partition(17, offset=0))
    session.go_on("it is still not there", 11)
    session.go_on("out of range in a session", 12, fetch_partition(1, offset=700))
    session.go_on("forget everything", 13, forget=[0, 1, 17])
    session.go_on("an empty session", 14, max_wait_ms=50)


def _lose(session: _Session) -> None:
    session.open("open one to close it", fetch_partition(0))
    session.go_on("close", -1)
    session.go_on("closed", 1)
    session.go_on("unknown session", 1, session_id=12345)
    session.go_on("epoch -1 of nothing", -1, session_id=0)
    session.go_on("epoch 1 of nothing", 1, session_id=0)
    session.go_on("epoch -5", -5, session_id=0)
    session.go_on("open without partitions", 0, session_id=0)
    session.go_on("reopen", 0, fetch_partition(0), session_id=0)


def _take_turns(session: _Session) -> None:
    for index in range(3):
        session.append(index, *[b"a"] * 6)
    session.open("small", *(fetch_partition(index, offset=6, max_bytes=1) for index in range(3)), max_bytes=1)
    for epoch in range(1, 5):
        session.go_on(f"takes turns {epoch}", epoch, max_bytes=1)


@case
def fetch_session_by_name_then_by_id(probe: Probe) -> None:
    topic_id = filled(probe, "f-mixed")
    first = probe.ask("by name", fetch("f-mixed", fetch_partition(), session_epoch=0), 12)
    probe.ask("then by id", fetch(topic_id, fetch_partition(), session_id=first.session_id, session_epoch=1), 13)
    first = probe.ask("by id", fetch(topic_id, fetch_partition(), session_epoch=0), 13)
    probe.ask("then by name", fetch("f-mixed", fetch_partition(), session_id=first.session_id, session_epoch=1), 12)


@case
def fetch_after_records_were_deleted(probe: Probe) -> None:
    from kafkapy.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

    filled(probe, "f-deleted")
    part = DeleteRecordsPartition(partition_index=0, offset=3)
    probe.ask(
        "delete",
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="f-deleted", partitions=[part])], timeout_ms=1000),
        2,
    )
    for offset in (0, 2, 3, 4):
        for version in (4, 5, 12):
            probe.ask(f"offset {offset}", fetch("f-deleted", fetch_partition(offset=offset)), version)


@case
def fetch_rack(probe: Probe) -> None:
    filled(probe, "f-rack")
    probe.ask("a rack", fetch("f-rack", fetch_partition(), rack_id="somewhere"), 11)
