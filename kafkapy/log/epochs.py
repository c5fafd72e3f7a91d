"""Which leader epoch wrote which offsets: the leader-epoch-checkpoint of a partition.

    0              version
    2              number of lines that follow
    0 0            epoch, and the first offset that it wrote
    3 1042

Followers and consumers compare histories with it: the end of an epoch is where the next one begins, or the end of the log. Every
batch carries its epoch, so after a crash the lines of the unflushed part are found again in the log; the file is therefore written
with the next flush or clean stop and not for each change.
"""

from __future__ import annotations

import itertools
import logging
from typing import NamedTuple

from kafkapy.errors import StorageError
from kafkapy.log.filesystem import Filesystem, read_file, replace_file, storage_errors

logger = logging.getLogger(__name__)

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset that it wrote."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of a log in rising order, of both epoch and start offset."""

    __slots__ = ("_dirty", "entries", "latest_epoch")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self.entries: list[EpochEntry] = entries or []
        self.latest_epoch = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH
        self._dirty = False

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of `epoch` begins at `start_offset`. Entries that contradict it are dropped: the newer word counts."""
        entries = self.entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) when this log knows nothing of it."""
        entries = self.entries
        if epoch == UNDEFINED_EPOCH or not entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        if epoch > entries[-1].epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        found = epoch
        for entry in entries:
            if entry.epoch > epoch:
                return found, entry.start_offset
            found = entry.epoch
        raise AssertionError("the last entry is above the epoch")

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 when it is older than all that is known."""
        found = UNDEFINED_EPOCH
        for entry in self.entries:
            if entry.start_offset > offset:
                break
            found = entry.epoch
        return found

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at `end_offset` or later."""
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log begins at `start_offset` now: earlier epochs go, the one that wrote this offset begins with it."""
        kept = [entry for entry in self.entries if entry.start_offset > start_offset]
        if len(kept) < len(self.entries):
            epoch = self.entries[-len(kept) - 1].epoch
            if self.entries[0] != (epoch, start_offset):
                self.entries = [EpochEntry(epoch, start_offset), *kept]
                self._changed()

    def clear(self) -> None:
        """The log begins anew."""
        if self.entries:
            self.entries = []
            self._changed()

    def save(self, fs: Filesystem, folder: str, *, sync: bool = False) -> bool:
        """Write the file if anything changed since the last time; whether it did."""
        if not self._dirty:
            return False
        path = f"{folder}/{LEADER_EPOCH_FILE}"
        with storage_errors(path):
            replace_file(fs, path, encode_epochs(self.entries), sync=sync)
        self._dirty = False
        return True

    def _changed(self) -> None:
        self.latest_epoch = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH
        self._dirty = True


def load_epochs(fs: Filesystem, folder: str) -> LeaderEpochs | None:
    """The epochs of a folder; None when the file is missing or damaged: every batch in the log has its epoch too."""
    path = f"{folder}/{LEADER_EPOCH_FILE}"
    try:
        with storage_errors(path):
            return LeaderEpochs(decode_epochs(path, read_file(fs, path)))
    except StorageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            logger.warning("reading the leader epochs from the log: %s", error)
    return None


def encode_epochs(entries: list[EpochEntry]) -> bytes:
    """The file's text."""
    lines = [f"{entry.epoch} {entry.start_offset}\n" for entry in entries]
    return "".join(["0\n", f"{len(lines)}\n", *lines]).encode()


def decode_epochs(path: str, data: bytes) -> list[EpochEntry]:
    """The entries of the file's text, or StorageError."""
    try:
        version, count, *lines = data.decode().splitlines()
        entries = [EpochEntry(*map(int, line.split())) for line in lines]
        if int(version) != 0 or int(count) != len(entries):
            raise ValueError(f"version {version}, {count} entries announced and {len(entries)} found")
    except (ValueError, TypeError) as error:
        raise StorageError(path, f"not a leader epoch checkpoint: {error}") from error
    for earlier, later in itertools.pairwise(entries):
        if not (earlier.epoch < later.epoch and earlier.start_offset <= later.start_offset):
            raise StorageError(path, f"the entries {earlier} and {later} are out of order")
    return entries
