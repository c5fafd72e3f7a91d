"""The metadata log against crashes and damage: behind the journal it is made whole, ahead of it or beside it it is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkapy.errors import StorageError
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.quorum import Outcome
from kafkapy.raft.syncobj_quorum import SyncObjQuorum
from kafkapy.raft.topics import create_topics
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.raft.support import RunningNode, counting_uuids

SEGMENT = "00000000000000000000.log"


def _start(folder: Path, **options: int) -> RunningNode:
    running = RunningNode(str(folder), SyncObjQuorum(str(folder), 1, **options)).start()
    running.loop.run_until(lambda: running.ready or running.failures)
    return running


def _create(running: RunningNode, *names: str) -> None:
    for name in names:
        request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)])
        controller = running.controller
        decision = create_topics(controller.require_active(), request, running.config, controller.new_uuid)
        ticket = controller.submit(decision, running.now_ms)
        assert ticket is not None
        running.loop.run_until(lambda ticket=ticket: ticket.outcome is not Outcome.PENDING)
        assert ticket.outcome is Outcome.COMMITTED


def _make(tmp_path: Path, topics: int = 4, **options: int) -> tuple[Path, MetadataImage]:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    running = _start(folder, **options)
    _create(running, *(f"topic-{number}" for number in range(topics)))
    running.node.stop()
    return folder, running.node.image


def _topics(image: MetadataImage) -> set[tuple[str, bytes, int]]:
    """What a crash must not change. Leader epochs may go on: a node that cannot know how it stopped begins new ones."""
    return {(topic.name, topic.id, len(topic.partitions)) for topic in image.topics.by_name.values()}


def _restarted(folder: Path, image: MetadataImage) -> RunningNode:
    """Start again: the topics are those of before, or the node refuses to start."""
    running = _start(folder)
    if not running.failures:
        assert _topics(running.node.image) == _topics(image)
    running.node.stop()
    return running


@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.61, 0.8, 0.97])
def test_a_log_that_lags_behind_the_journal_is_made_whole(tmp_path: Path, share: float) -> None:
    """After a power cut the log may end anywhere: the journal tells the rest again, at the same offsets."""
    folder, image = _make(tmp_path)
    content = (folder / SEGMENT).read_bytes()
    (folder / SEGMENT).write_bytes(content[: int(len(content) * share)])
    assert not _restarted(folder, image).failures
    assert (folder / SEGMENT).read_bytes().startswith(content)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.7, 0.99])
def test_a_damaged_log_is_cut_and_told_again(tmp_path: Path, share: float) -> None:
    """The journal still holds everything behind the damage, so nothing is lost with what is cut."""
    folder, image = _make(tmp_path)
    content = bytearray((folder / SEGMENT).read_bytes())
    damaged = bytearray(content)
    damaged[int(len(content) * share)] ^= 0x40
    (folder / SEGMENT).write_bytes(damaged)
    assert not _restarted(folder, image).failures
    assert (folder / SEGMENT).read_bytes().startswith(bytes(content))


def test_a_lost_journal_is_refused(tmp_path: Path) -> None:
    """The log goes further than an empty journal: somebody has lost acknowledged changes, and nothing is overwritten."""
    folder, image = _make(tmp_path)
    (folder / "quorum.journal").unlink()
    content = (folder / SEGMENT).read_bytes()
    failures = _restarted(folder, image).failures
    assert "lost or replaced" in str(failures[0])
    assert (folder / SEGMENT).read_bytes() == content


def test_rot_in_the_last_synced_bytes_of_the_journal_is_found(tmp_path: Path) -> None:
    """It looks like a torn tail to the journal, but the metadata log knows better."""
    folder, image = _make(tmp_path)
    content = (folder / "quorum.journal").read_bytes()
    (folder / "quorum.journal").write_bytes(content[:-400])
    failures = _restarted(folder, image).failures
    assert "the end of the journal has been lost" in str(failures[0])


def test_a_log_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """The same offset has another epoch in the journal."""
    first, image = _make(tmp_path)
    for _ in range(2):
        _restarted(first, image)
    (tmp_path / "other").mkdir()
    second, _ = _make(tmp_path / "other", topics=30)
    shutil.copy(second / SEGMENT, first / SEGMENT)
    failures = _restarted(first, image).failures
    assert isinstance(failures[0], StorageError)
    assert "don't belong together" in str(failures[0])


def _with_snapshots(tmp_path: Path) -> tuple[Path, MetadataImage, list[Path]]:
    folder, image = _make(tmp_path, topics=60, snapshot_bytes=3000)
    snapshots = sorted(folder.glob("*.checkpoint"))
    assert len(snapshots) == 2
    return folder, image, snapshots


def test_a_start_reads_the_newest_snapshot_and_what_follows(tmp_path: Path) -> None:
    """Two snapshots are kept, and the segments that the older one needs."""
    folder, image, snapshots = _with_snapshots(tmp_path)
    assert not _restarted(folder, image).failures
    older = int(snapshots[0].name[:20])
    segments = sorted(int(path.name[:20]) for path in folder.glob("*.log"))
    assert segments[0] <= older
    assert len(segments) < 5


def test_an_unreadable_snapshot_is_replaced_by_the_one_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The older snapshot and the segments behind it give the same image."""
    folder, image, snapshots = _with_snapshots(tmp_path)
    for content in (b"", snapshots[1].read_bytes()[:-10], b"\xff" * 500):
        snapshots[1].write_bytes(content)
        caplog.clear()
        assert not _restarted(folder, image).failures
        assert f"{snapshots[1].name}: cannot be read" in caplog.text


def test_without_any_snapshot_there_is_a_gap(tmp_path: Path) -> None:
    """The beginning of the log is gone, so the node says so instead of starting with half a cluster."""
    folder, _, snapshots = _with_snapshots(tmp_path)
    for path in snapshots:
        path.unlink()
    with pytest.raises(StorageError, match="no readable snapshot"):
        _start(folder)


def test_a_snapshot_stands_in_for_a_log_that_was_never_written(tmp_path: Path) -> None:
    """Power cut behind a snapshot: it was synced, the segments were not. The journal goes on where the snapshot ends."""
    folder, image, _ = _with_snapshots(tmp_path)
    for path in folder.glob("*.log"):
        path.write_bytes(b"")
    assert not _restarted(folder, image).failures
    assert not _restarted(folder, image).failures


def test_a_log_of_apache_kafkas_own_is_gone_on_with(tmp_path: Path) -> None:
    """A folder with Apache Kafka's quorum-state has no journal of ours: the log is taken as it is, once, and the epochs go on."""
    folder, image = _make(tmp_path)
    for name in ("quorum.journal", "quorum.snapshot"):
        (folder / name).unlink(missing_ok=True)
    (folder / "quorum-state").write_text('{"data_version":0}')
    running = _start(folder)
    assert not running.failures
    assert _topics(running.node.image) == _topics(image)
    assert running.node.image.epoch == image.epoch + 1
    running.controller.new_uuid = counting_uuids(100)
    _create(running, "more")
    running.node.stop()
    assert not (folder / "quorum-state").exists()
    assert not _restarted(folder, running.node.image).failures
