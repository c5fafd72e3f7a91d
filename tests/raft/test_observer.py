"""A node without a vote: whom it asks, what it takes in, and when it stops rather than guess."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkapy.errors import ErrorCode, StorageError
from kafkapy.raft.metadata_batches import encode_committed, snapshot_batches
from kafkapy.raft.metadata_log import METADATA_TOPIC_ID, POSITION_INTERVAL_BYTES, MetadataLog
from kafkapy.raft.observer import Observer, ObserverIdentity
from kafkapy.raft.quorum import CommittedBatch, SnapshotPosition
from kafkapy.wire.messages import fetch, fetch_snapshot
from kafkapy.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkapy.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kafkapy.wire.metadata_records import FeatureLevelRecord
from kafkapy.wire.record_framing import encode_metadata_record

VOTERS = (1, 2, 3)
RECORD = encode_metadata_record(FeatureLevelRecord(name="metadata.version", feature_level=25), 0)


def batch(base_offset: int, count: int = 1, epoch: int = 1) -> CommittedBatch:
    """A decision of so many records."""
    return CommittedBatch(base_offset, epoch, -1, 1000, (RECORD,) * count)


class World:
    """The observer's network, listener and position in one: nothing happens before the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Any, Callable[[Any], None]]] = []
        self.due: list[Callable[[], None]] = []
        self.committed: list[CommittedBatch] = []
        self.snapshots: list[tuple[SnapshotPosition, bytes]] = []
        self.failures: list[BaseException] = []
        self.places: dict[int, tuple[str, int]] = {}
        self.position = SnapshotPosition(0, 0, -1, 0)
        identity = ObserverIdentity(9, "cluster", bytes(16), "/data/__cluster_metadata-0")
        self.observer = Observer(identity, VOTERS, self, lambda: self.position, 1 << 30)
        self.observer.start(self, lambda callback: callback())  # type: ignore[arg-type]
        self.run_due()

    # ObserverNetwork

    def ask(self, node_id: int, request: Any, version: int, done: Callable[[Any], None], timeout_ms: int) -> None:
        """Keep it until `answer`."""
        type(request).decode(request.encode(version), version)
        self.asked.append((node_id, request, done))

    def learn(self, node_id: int, host: str, port: int) -> None:
        """Remember it."""
        self.places[node_id] = (host, port)

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Keep it until `run_due`."""
        self.due.append(callback)

    def off_loop(self, work: Callable[[], object]) -> None:
        """At once."""
        work()

    # QuorumListener

    def on_committed(self, batch: CommittedBatch) -> None:
        """Move on."""
        self.committed.append(batch)
        self.position = SnapshotPosition(batch.next_offset, batch.epoch, -1, batch.timestamp_ms)

    def on_snapshot_received(self, position: SnapshotPosition, content: bytes) -> None:
        """Go over to it."""
        self.snapshots.append((position, content))
        self.position = position

    def on_failure(self, error: BaseException) -> None:
        """Note it."""
        self.failures.append(error)

    # The test's side

    def run_due(self) -> None:
        """Let the time pass."""
        due, self.due = self.due, []
        for callback in due:
            callback()

    def answer(self, response: Any) -> None:
        """Answer the one request that is under way."""
        (_, _, done), *rest = self.asked
        assert not rest, "one request at a time"
        self.asked = []
        done(response)
        self.run_due()

    @property
    def target(self) -> int:
        """Who is asked now."""
        return self.asked[0][0]

    @property
    def fetched(self) -> fetch.FetchPartition:
        """The partition in the fetch that is under way."""
        request = self.asked[0][1]
        assert isinstance(request, FetchRequest)
        assert (request.topics[0].topic_id, request.replica_state.replica_id) == (METADATA_TOPIC_ID, 9)
        return request.topics[0].partitions[0]


def answer(leader: int = 2, epoch: int = 1, endpoint: bool = False, **fields: Any) -> FetchResponse:
    """A controller's answer."""
    partition = PartitionData(current_leader=fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch), **fields)
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])])
    if endpoint:
        response.node_endpoints = [fetch.NodeEndpoint(node_id=leader, host="h", port=1)]
    return response


def test_it_asks_one_after_the_other_until_somebody_names_the_leader() -> None:
    """No answer, an election, and then the voter that the others point to; what is committed comes in order."""
    world = World()
    assert world.target == 1
    world.answer(None)
    assert world.target == 2
    world.answer(answer(leader=-1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert world.target == 3
    world.answer(answer(leader=1, epoch=4, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, endpoint=True))
    assert (world.target, world.observer.leader_id, world.places) == (1, 1, {1: ("h", 1)})
    assert world.fetched.current_leader_epoch == 4
    change = CommittedBatch(0, 4, 1, 1000, ())
    told = [change, batch(1, 3, 4), batch(4, 2, 4)]
    world.answer(answer(leader=1, epoch=4, records=b"".join(encode_committed(one, VOTERS) for one in told)))
    assert world.committed == told
    assert (world.fetched.fetch_offset, world.fetched.last_fetched_epoch) == (6, 4)


def test_a_new_leader_is_followed_in_its_epoch() -> None:
    """The former one says who it is, or that our epoch is over."""
    world = World()
    world.answer(answer(leader=1, epoch=1, records=bytes(encode_committed(batch(0), VOTERS))))
    world.answer(answer(leader=1, epoch=2, error_code=ErrorCode.FENCED_LEADER_EPOCH))
    assert (world.target, world.fetched.current_leader_epoch) == (1, 2)
    world.answer(answer(leader=3, epoch=3, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert (world.target, world.fetched.current_leader_epoch) == (3, 3)
    world.answer(None)
    assert world.observer.leader_id is None
    assert world.fetched.current_leader_epoch == -1


def test_a_snapshot_comes_in_parts() -> None:
    """Each part goes on where the last one ended; the whole takes the place of what is here, and the log goes on behind it."""
    world = World()
    position = SnapshotPosition(50, 3, -1, 7000)
    content = b"".join(snapshot_batches([FeatureLevelRecord(name="metadata.version", feature_level=25)], position, 25))
    world.answer(answer(epoch=3, snapshot_id=fetch.SnapshotId(end_offset=50, epoch=3)))
    for begin in range(0, len(content), 100):
        request = world.asked[0][1]
        assert isinstance(request, FetchSnapshotRequest)
        assert request.topics[0].partitions[0].position == begin
        part = fetch_snapshot.ResponsePartition(
            size=len(content), position=begin, unaligned_records=memoryview(content)[begin : begin + 100]
        )
        world.answer(FetchSnapshotResponse(topics=[fetch_snapshot.ResponseTopic(partitions=[part])]))
    assert world.snapshots == [(position, content)]
    assert (world.fetched.fetch_offset, world.fetched.last_fetched_epoch) == (50, 3)


def test_another_history_stops_the_node() -> None:
    """What was never committed where we fetch, or another cluster: nothing is changed, and the reason is told."""
    for response in (
        answer(diverging_epoch=fetch.EpochEndOffset(epoch=1, end_offset=3)),
        FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID),
    ):
        world = World()
        world.position = SnapshotPosition(10, 2, -1, 0)
        world.answer(response)
        (failure,) = world.failures
        assert isinstance(failure, StorageError)
        assert "another cluster" in str(failure)
        assert world.asked == world.due == world.committed == []


def test_damage_on_the_way_is_fetched_again() -> None:
    """A batch that doesn't match its checksum is not taken in."""
    world = World()
    damaged = bytearray(encode_committed(batch(0), VOTERS))
    damaged[-1] ^= 1
    world.answer(answer(records=bytes(damaged)))
    assert world.committed == []
    assert world.fetched.fetch_offset == 0


def test_the_log_serves_whole_batches_from_any_offset(tmp_path: Path) -> None:
    """Whatever offset is asked for, the first batch is the one that holds it; after a restart too."""
    log = MetadataLog(str(tmp_path), VOTERS)
    log.load(lambda *_: None, lambda *_: None)
    batches = [batch(0)]
    while sum(len(one.records) for one in batches) * 40 < 3 * POSITION_INTERVAL_BYTES:
        batches.append(batch(batches[-1].next_offset, 1 + len(batches) % 50))
    for one in batches:
        assert log.append(one)
    reloaded = MetadataLog(str(tmp_path), VOTERS)
    reloaded.load(lambda *_: None, lambda *_: None)
    for source in (log, reloaded):
        for index in range(0, len(batches), 7):
            offset = batches[index].next_offset - 1
            assert source.read(offset, 1) == bytes(encode_committed(batches[index], VOTERS))
            longer = source.read(offset, 4000)
            whole = b"".join(encode_committed(one, VOTERS) for one in batches[index : index + 100])
            assert whole.startswith(longer)
        assert source.read(batches[-1].next_offset, 1000) == b""
    log.close()
    reloaded.close()


def test_the_log_says_where_another_one_parts_from_it(tmp_path: Path) -> None:
    """By the epoch of the last record that the other one has."""
    log = MetadataLog(str(tmp_path), VOTERS)
    log.load(lambda *_: None, lambda *_: None)
    for one in (batch(0, 5, 1), batch(5, 5, 2), batch(10, 5, 4)):
        log.append(one)
    assert log.common_end(0, -1) is None
    assert log.common_end(5, 1) is None
    assert log.common_end(7, 2) is None
    assert log.common_end(15, 4) is None
    assert log.common_end(7, 1) == (1, 5)
    assert log.common_end(11, 3) == (2, 10)
    assert log.common_end(16, 4) == (4, 15)
    assert log.common_end(3, 0) == (0, 0)
    log.close()
