"""The quorum's journal: what is synced stays, what was torn is cut, what has rotted is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.errors import StorageError
from kafkapy.raft.journal import MAGIC, Entry, Journal


def _journal(tmp_path: Path, entries: int, synced: int) -> tuple[str, list[int]]:
    """A journal with so many entries, of which the first are synced; where each record of an entry ends."""
    path = str(tmp_path / "journal")
    journal = Journal(path)
    ends = []
    for index in range(1, entries + 1):
        journal.append(b"command %d" % index, index, 1)
        ends.append(journal.size)
        if index == synced:
            journal.sync()
    return path, ends


def test_everything_is_back_after_a_clean_stop(tmp_path: Path) -> None:
    """Entries, term, vote and commit index survive."""
    path, _ = _journal(tmp_path, 3, 3)
    journal = Journal(path)
    journal.set_term_and_vote(7, "2")
    journal.set_commit_index(3)
    journal.close()
    again = Journal(path)
    assert [entry.command for entry in again.entries] == [b"command 1", b"command 2", b"command 3"]
    assert (again.term, again.vote, again.commit_index) == (7, "2", 3)


def test_a_vote_for_nobody_is_no_vote_for_the_empty_name(tmp_path: Path) -> None:
    """None and "" are told apart."""
    for vote in (None, "", "1"):
        path = str(tmp_path / f"journal-{vote}")
        Journal(path).set_term_and_vote(1, vote)
        assert Journal(path).vote == vote


@pytest.mark.parametrize("synced", [0, 2, 4])
def test_cut_at_every_byte(tmp_path: Path, synced: int) -> None:
    """However much of the unsynced end is missing, the whole records before the cut are back, and new ones can follow."""
    path, ends = _journal(tmp_path, 4, synced)
    content = Path(path).read_bytes()
    first = ends[synced - 1] if synced else len(content) - 150
    for cut in range(max(first, len(MAGIC)), len(content)):
        Path(path).write_bytes(content[:cut])
        journal = Journal(path)
        whole = sum(end <= cut for end in ends)
        assert len(journal.entries) == whole
        journal.append(b"next", whole + 1, 2)
        journal.close()
        assert Journal(path).entries[-1] == Entry(b"next", whole + 1, 2)


def test_a_flipped_byte_is_cut_or_refused_but_never_believed(tmp_path: Path) -> None:
    """Damage to what a later record calls synced is refused with the position; damage behind the last sync is cut."""
    path, ends = _journal(tmp_path, 6, 4)
    content = Path(path).read_bytes()
    refused = cut = 0
    for position in range(len(MAGIC), len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x5A
        Path(path).write_bytes(damaged)
        try:
            entries = Journal(path).entries
        except StorageError as error:
            refused += 1
            assert position < ends[3]
            assert path in str(error) and "damaged at byte" in str(error)
        else:
            cut += 1
            assert position >= ends[3]
            assert [entry.log_index for entry in entries] == list(range(1, len(entries) + 1))
            assert all(entry.command == b"command %d" % entry.log_index for entry in entries)
    assert refused == ends[3] - len(MAGIC)
    assert cut == len(content) - ends[3]


def test_zeros_behind_the_end_are_a_torn_tail(tmp_path: Path) -> None:
    """A file system may have grown the file and not written it: that is cut."""
    path, _ = _journal(tmp_path, 3, 3)
    with open(path, "ab") as file:
        file.write(bytes(4096))
    assert len(Journal(path).entries) == 3


def test_another_leaders_entries_replace_ours(tmp_path: Path) -> None:
    """An entry of another term cuts what follows it, also on disk; the same entry again changes nothing."""
    path, _ = _journal(tmp_path, 4, 4)
    journal = Journal(path)
    size = journal.size
    journal.append(b"command 3", 3, 1)
    assert journal.size == size
    journal.append(b"other 3", 3, 2)
    journal.close()
    assert [entry.command for entry in Journal(path).entries] == [b"command 1", b"command 2", b"other 3"]


def test_a_gap_is_our_own_mistake(tmp_path: Path) -> None:
    """An entry must follow the last."""
    path, _ = _journal(tmp_path, 2, 2)
    with pytest.raises(ValueError, match="does not follow"):
        Journal(path).append(b"", 4, 1)


def test_trimming_leaves_a_whole_journal(tmp_path: Path) -> None:
    """After a snapshot the entries before it are gone, the state is kept, and the file is one piece."""
    path, _ = _journal(tmp_path, 10, 10)
    journal = Journal(path)
    journal.set_term_and_vote(3, "1")
    journal.trim_to(8)
    journal.append(b"command 11", 11, 3)
    journal.close()
    again = Journal(path)
    assert [entry.log_index for entry in again.entries] == [8, 9, 10, 11]
    assert (again.term, again.vote) == (3, "1")


def test_a_crash_between_snapshot_and_trim_is_made_good(tmp_path: Path) -> None:
    """Opened with a snapshot that covers its beginning, the journal drops what is covered and nothing else."""
    path, _ = _journal(tmp_path, 10, 10)
    journal = Journal(path, keep_from=6)
    assert [entry.log_index for entry in journal.entries] == [6, 7, 8, 9, 10]
    journal.close()
    assert [entry.log_index for entry in Journal(path).entries] == [6, 7, 8, 9, 10]


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    """What does not begin with the magic is nobody's journal."""
    path = tmp_path / "journal"
    path.write_bytes(b"PYSYNCOBJ")
    with pytest.raises(StorageError, match="not a quorum journal"):
        Journal(str(path))


def test_the_commit_index_never_lies_behind_the_end(tmp_path: Path) -> None:
    """A torn tail may take entries that were known to be committed elsewhere; the index follows."""
    path = str(tmp_path / "journal")
    journal = Journal(path)
    journal.append(b"a", 1, 1)
    journal.set_commit_index(5)
    journal.close()
    assert Journal(path).commit_index == 1


def test_one_sync_serves_many_entries(tmp_path: Path) -> None:
    """Syncing again without anything new costs nothing."""
    path, _ = _journal(tmp_path, 5, 0)
    journal = Journal(path)
    for index in range(6, 11):
        journal.append(b"x", index, 1)
    journal.sync()
    journal.sync()
    assert journal.syncs == 1


def test_committed_entries_are_never_replaced(tmp_path: Path) -> None:
    """A leader that contradicts what a majority has is a fault, not an order."""
    path, _ = _journal(tmp_path, 3, 3)
    journal = Journal(path)
    journal.set_commit_index(2)
    with pytest.raises(ValueError, match="contradicts"):
        journal.append(b"other", 2, 2)
    journal.append(b"other", 3, 2)
    assert [entry.command for entry in journal.entries] == [b"command 1", b"command 2", b"other"]
