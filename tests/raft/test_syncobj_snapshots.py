"""The snapshot that a leader sends: in pieces, into a file of its own, and in place of ours only if it is whole and brings something."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.raft import syncobj_seams
from kafkapy.raft.journal import Entry
from kafkapy.raft.syncobj_seams import SnapshotSeam

LAST, PREV = Entry(b"last", 9, 2), Entry(b"prev", 8, 2)


class Sides:
    """A leader's seam and a follower's, with a file each."""

    def __init__(self, root: Path, content: bytes, wanted: bool = True) -> None:
        self.leader_path, self.path = root / "leader", root / "follower"
        self.leader_path.write_bytes(content)
        self.path.write_bytes(b"old")
        self.backlog = 0
        self.seen: list[bytes] = []

        def install(path: str) -> bool:
            self.seen.append(Path(path).read_bytes())
            return wanted

        self.leader = self._seam(str(self.leader_path), install)
        self.follower = self._seam(str(self.path), install)

    def _seam(self, path: str, install: object) -> SnapshotSeam:
        return SnapshotSeam(path, lambda *_: None, lambda _: (LAST, PREV), install, lambda node: self.backlog)  # type: ignore[arg-type]

    def pieces(self) -> list[tuple[bytes, bool, bool]]:
        """All that the leader sends."""
        found = []
        while not found or not found[-1][2]:
            piece = self.leader.getTransmissionData("3")
            assert piece is not None
            found.append(piece)
        return found


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are several."""
    monkeypatch.setattr(syncobj_seams, "SNAPSHOT_PIECE_BYTES", 10)


def test_pieces_make_the_whole(tmp_path: Path) -> None:
    """The last one, which is empty, puts it in place."""
    sides = Sides(tmp_path, b"0123456789abcdefghij!")
    assert [sides.follower.setTransmissionData(piece) for piece in sides.pieces()] == [False, False, False, True]
    assert sides.path.read_bytes() == b"0123456789abcdefghij!"
    assert sides.follower.deserialize() == (None, LAST, PREV, set())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["follower", "leader"]


def test_what_brings_nothing_is_not_taken(tmp_path: Path) -> None:
    """Ours stays, and so do the entries behind it."""
    sides = Sides(tmp_path, b"older", wanted=False)
    assert not any(sides.follower.setTransmissionData(piece) for piece in sides.pieces())
    assert sides.path.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["follower", "leader"]


def test_without_its_beginning_it_is_nothing(tmp_path: Path) -> None:
    """The pieces before were lost with a link."""
    sides = Sides(tmp_path, b"0123456789abcdef")
    assert not any(sides.follower.setTransmissionData(piece) for piece in sides.pieces()[1:])
    assert not sides.follower.setTransmissionData(None)
    assert sides.seen == [] and sides.path.read_bytes() == b"old"


def test_it_begins_anew_after_a_lost_link(tmp_path: Path) -> None:
    """Whatever had come of the first attempt is forgotten."""
    sides = Sides(tmp_path, b"0123456789abcdef")
    first = sides.leader.getTransmissionData("3")
    sides.follower.setTransmissionData(first)
    sides.leader.cancelTransmisstion("3")
    assert [sides.follower.setTransmissionData(piece) for piece in sides.pieces()][-1]
    assert sides.path.read_bytes() == b"0123456789abcdef"


def test_a_slow_follower_is_waited_for(tmp_path: Path) -> None:
    """What it has not taken is not read from the disk."""
    sides = Sides(tmp_path, b"0123456789abcdef")
    sides.backlog = syncobj_seams.BACKLOG_BYTES_MAX + 1
    assert sides.leader.getTransmissionData("3") is None
    sides.backlog = 0
    assert sides.leader.getTransmissionData("3") == (b"0123456789", True, False)
    sides.leader.close()
    sides.follower.close()
