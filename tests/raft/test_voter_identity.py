"""A voter is known by its disk: who has lost it is refused until an operator says that it is to come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.errors import StorageError
from kafkapy.log.checkpoints import read_meta_properties, write_meta_properties
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.raft.voter_identity import VoterIdentity, directory_id, note_unformatted
from kafkapy.raft.voter_session import Claims, Refusal, Standing

FIRST = Claims(2, "cluster", b"d" * 16, b"i" * 16, "1@a:1,2@b:1")


def test_the_first_contact_is_remembered(tmp_path: Path) -> None:
    """Another start knows the disk of each voter that was met."""
    VoterIdentity(str(tmp_path)).note(FIRST)
    again = VoterIdentity(str(tmp_path))
    assert again.judge(FIRST._replace(incarnation=b"j" * 16)) is None
    assert again.judge(FIRST._replace(directory_id=b"e" * 16)) is Refusal.OTHER_DISK
    newcomer = FIRST._replace(directory_id=b"e" * 16, standing=Standing.NEWCOMER)
    assert again.judge(newcomer) is Refusal.OTHER_DISK


def test_a_lost_journal_is_noticed(tmp_path: Path) -> None:
    """The right disk without its journal is as bad as another disk, but a journal is new in a first start."""
    identity = VoterIdentity(str(tmp_path))
    identity.note(FIRST._replace(journal_is_new=True))
    assert identity.judge(FIRST._replace(journal_is_new=True)) is None
    assert identity.judge(FIRST._replace(journal_is_new=True, incarnation=b"j" * 16)) is Refusal.LOST_JOURNAL


def test_a_voter_that_rejoins_takes_the_place_of_the_lost_one(tmp_path: Path) -> None:
    """From then on the old disk is the wrong one."""
    identity = VoterIdentity(str(tmp_path))
    identity.note(FIRST)
    rejoining = FIRST._replace(directory_id=b"e" * 16, standing=Standing.REJOINING, journal_is_new=True)
    assert identity.judge(rejoining) is None
    identity.note(rejoining)
    again = VoterIdentity(str(tmp_path))
    assert again.judge(rejoining._replace(standing=Standing.MEMBER, journal_is_new=False)) is None
    assert again.judge(FIRST) is Refusal.OTHER_DISK


def test_standing_survives_a_restart(tmp_path: Path) -> None:
    """A newcomer that is killed before it has met the others is still one."""
    note_unformatted(str(tmp_path))
    folder = str(tmp_path / "__cluster_metadata-0")
    assert VoterIdentity(folder).standing is Standing.NEWCOMER
    VoterIdentity(folder).become(Standing.MEMBER)
    assert VoterIdentity(folder).standing is Standing.MEMBER


def test_a_formatted_folder_is_a_members(tmp_path: Path) -> None:
    """Somebody has formatted it on purpose, so nothing is noted."""
    write_meta_properties(OsFilesystem(), str(tmp_path), "cluster", 1, b"d" * 16)
    note_unformatted(str(tmp_path))
    assert not (tmp_path / "__cluster_metadata-0").exists()


def test_a_folder_without_an_id_gets_one(tmp_path: Path) -> None:
    """A folder for the metadata alone is formatted like the others."""
    drawn = directory_id(str(tmp_path), "cluster", 1)
    assert directory_id(str(tmp_path), "cluster", 1) == drawn
    properties = read_meta_properties(OsFilesystem(), str(tmp_path))
    assert properties is not None and properties["cluster.id"] == "cluster"


@pytest.mark.parametrize("text", ["version=1\n", "version=2\nstanding=member\n", "version=1\nstanding=king\n", "\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    """To guess would be to vote twice."""
    (tmp_path / "quorum.voters").write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageError, match=r"quorum\.voters"):
        VoterIdentity(str(tmp_path))
