"""The metadata log on disk: `__cluster_metadata-0` with its segments and snapshots, in KRaft's formats (see metadata_batches.py).

    00000000000000000000.log                            batches from offset 0 on
    00000000000000004711.log                            the next segment: one begins with every snapshot
    00000000000000004711-0000000003.checkpoint          a snapshot of everything before offset 4711, taken in epoch 3
    quorum.journal, quorum.snapshot                     the quorum's own, see journal.py and entries.py

What is here has been committed before, so it is never synced: after a crash it may end before the journal does, and the quorum tells the
rest again. It is never ahead of the journal, and where it is, somebody has lost or replaced the journal; then nothing is touched and the
broker doesn't start. The same holds for a gap, and for offsets whose epoch differs.

Damage is cut only when the quorum is about to tell the same batches again, never at opening.

The last two snapshots are kept with all the segments after the older one: should the newer be unreadable, the older and the segments
give the same image.
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from kafkapy.errors import KafkaError, ProtocolError, StorageError
from kafkapy.log.filesystem import Filesystem, OsFilesystem, read_file, replace_file, storage_errors, write_fully
from kafkapy.raft.metadata_batches import (
    StoredBatch,
    checkpoint_name,
    encode_committed,
    parse_checkpoint_name,
    read_batches,
    read_snapshot,
)
from kafkapy.raft.quorum import CommittedBatch, SnapshotPosition
from kafkapy.wire.schema import Record

log = logging.getLogger(__name__)

METADATA_TOPIC_ID = bytes(15) + b"\x01"
SNAPSHOTS_KEPT = 2
LOG_SUFFIX = ".log"

# Where a batch begins is remembered about so often; a reader walks over the ones between.
POSITION_INTERVAL_BYTES = 32 * 1024
_BATCH_START = struct.Struct(">qi")  # base offset, length of what follows


class MetadataLog:
    """Opened once at start: `load` tells what is there, then `append` follows the quorum."""

    def __init__(self, folder: str, voters: Iterable[int], filesystem: Filesystem | None = None) -> None:
        self.folder = folder
        self.end_offset = 0
        self._fs: Filesystem = filesystem or OsFilesystem()
        self._voters = tuple(voters)
        self._segments: list[int] = []
        self._snapshots: list[tuple[int, int]] = []
        self._epochs: list[tuple[int, int]] = []  # (first offset, epoch), ascending
        self._descriptor = -1
        self._position = 0  # where the next batch goes in the last segment
        self._segment_end = -1  # the offset there; where it isn't the log's end, a new segment is due
        self._damage = ""
        self._behind_damage: list[int] = []
        self._positions: list[
            tuple[int, int, int]
        ] = []  # (offset, segment, position in its file) now and then, ascending

    # Reading, at start.

    def load(
        self, restore: Callable[[list[Record], SnapshotPosition], None], replay: Callable[[StoredBatch], None]
    ) -> None:
        """Call `restore` with the newest readable snapshot, if there is one, then `replay` with each batch behind it."""
        with storage_errors(self.folder):
            if not self._fs.exists(self.folder):
                self._fs.make_folder(self.folder)
            names = [entry.name for entry in self._fs.list(self.folder)]
        self._segments = sorted(int(name[:-4]) for name in names if name.endswith(LOG_SUFFIX) and name[:-4].isdecimal())
        self._snapshots = sorted(found for found in map(parse_checkpoint_name, names) if found is not None)
        self._load_snapshot(restore)
        for batch in self._batches():
            if batch.base_offset < self.end_offset:
                continue
            if batch.base_offset > self.end_offset:
                raise StorageError(self.folder, f"the metadata log has no batch at offset {self.end_offset}")
            replay(batch)
            self._note(batch.next_offset, batch.base_offset, batch.epoch)

    def _load_snapshot(self, restore: Callable[[list[Record], SnapshotPosition], None]) -> None:
        for end_offset, epoch in reversed(self._snapshots):
            path = f"{self.folder}/{checkpoint_name(end_offset, epoch)}"
            try:
                with storage_errors(path):
                    records, timestamp_ms = read_snapshot(read_file(self._fs, path))
            except (KafkaError, ProtocolError) as error:
                log.error("%s: cannot be read, an older snapshot has to do: %s", path, error)
                continue
            self._note(end_offset, end_offset - 1, epoch)
            restore(records, SnapshotPosition(end_offset, epoch, -1, timestamp_ms))
            return
        if self._segments and self._segments[0] > 0:
            raise StorageError(
                self.folder, f"the metadata log begins at offset {self._segments[0]} and there is no readable snapshot"
            )

    def _batches(self) -> Iterator[StoredBatch]:
        """The sound batches of the segments that the snapshot doesn't cover. Stops at damage, and remembers where it was."""
        first = max(0, bisect_right(self._segments, self.end_offset) - 1)
        for index in range(first, len(self._segments)):
            self._segment_end = self._segments[index]
            self._position = 0
            path = self._segment_path(self._segment_end)
            with storage_errors(path):
                content = read_file(self._fs, path)
            reason = "a batch is cut off"
            try:
                for batch in read_batches(content):
                    self._note_position(self._segments[index], batch.base_offset, self._position)
                    self._position, self._segment_end = batch.end_position, batch.next_offset
                    yield batch
            except (KafkaError, ProtocolError) as error:
                reason = str(error)
            if self._position < len(content):
                self._damage = f"{path}: damaged at byte {self._position}: {reason}"
                log.warning("%s; the quorum has to tell the rest again", self._damage)
                self._behind_damage = self._segments[index + 1 :]
                del self._segments[index + 1 :]
                return

    # Following the quorum.

    def append(self, batch: CommittedBatch) -> bool:
        """Write a batch; False where it was there already, because the quorum tells everything since its snapshot again."""
        if batch.base_offset < self.end_offset:
            known = self._epoch_at(batch.base_offset)
            if known is not None and known != batch.epoch:
                raise StorageError(
                    self.folder,
                    f"offset {batch.base_offset} has epoch {known} in the metadata log and {batch.epoch} in the quorum's journal: "
                    "they don't belong together, or the end of the journal has been lost",
                )
            return False
        if batch.base_offset > self.end_offset:
            raise StorageError(
                self.folder,
                f"the metadata log ends at offset {self.end_offset} but the quorum's journal goes on at {batch.base_offset}. {self._damage}",
            )
        if self._damage:
            self._cut_damage()
        if self._segment_end != self.end_offset or not self._segments:
            self._begin_segment()
        data = encode_committed(batch, self._voters)
        with storage_errors(self._segment_path(self._segments[-1])):
            write_fully(self._fs, self._open(), data, self._position)
        self._note_position(self._segments[-1], batch.base_offset, self._position)
        self._position += len(data)
        self._note(batch.next_offset, batch.base_offset, batch.epoch)
        self._segment_end = self.end_offset
        return True

    def close(self) -> None:
        """Close the last segment."""
        if self._descriptor >= 0:
            self._fs.close(self._descriptor)
            self._descriptor = -1

    # Serving followers that are no voters.

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; earlier segments that were not read at the start are kept for people only."""
        return self._positions[0][0] if self._positions else self.end_offset

    @property
    def newest_snapshot(self) -> tuple[int, int] | None:
        """End offset and epoch."""
        return self._snapshots[-1] if self._snapshots else None

    def common_end(self, next_offset: int, last_epoch: int) -> tuple[int, int] | None:
        """Where a log that ends with this offset and epoch parts from this one: (epoch, end offset); None where it is a part of it."""
        if not next_offset:
            return None
        index = bisect_right(self._epochs, last_epoch, key=lambda known: known[1])
        if not index:
            return (last_epoch, 0)
        epoch = self._epochs[index - 1][1]
        end_offset = self._epochs[index][0] if index < len(self._epochs) else self.end_offset
        return None if epoch == last_epoch and next_offset <= end_offset else (epoch, end_offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on, all of one segment; at least one, if there is any."""
        if offset >= self.end_offset:
            return b""
        index = bisect_right(self._positions, (offset, 1 << 62, 0))
        assert index, "the offset is not before the log's start"
        _, segment, position = self._positions[index - 1]
        path = self._segment_path(segment)
        with storage_errors(path):
            descriptor = self._fs.open_existing(path)
            try:
                content = self._fs.pread(descriptor, POSITION_INTERVAL_BYTES + max_bytes, position)
                begin, end = _whole_batches(content, offset, max_bytes)
                if end <= len(content):
                    return content[begin:end]
                return self._fs.pread(descriptor, end - begin, position + begin)
            finally:
                self._fs.close(descriptor)

    def read_snapshot_part(self, snapshot: tuple[int, int], position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Bytes of a snapshot's file and the file's size; None where there is no such snapshot."""
        if snapshot not in self._snapshots:
            return None
        path = f"{self.folder}/{checkpoint_name(*snapshot)}"
        with storage_errors(path):
            descriptor = self._fs.open_existing(path)
            try:
                return self._fs.pread(descriptor, max_bytes, position), self._fs.size(descriptor)
            finally:
                self._fs.close(descriptor)

    # Snapshots.

    def prepare_snapshot(self, batches: Iterable[bytes | bytearray], position: SnapshotPosition) -> Callable[[], bytes]:
        """Begin a new segment, and return what may run elsewhere: it writes the snapshot from `batches` and removes what two snapshots cover."""
        self._segment_end = -1
        covered = sorted({*self._snapshots, (position.end_offset, position.epoch)})
        kept = covered[-SNAPSHOTS_KEPT:]
        oldest = kept[0][0]
        obsolete = [
            base for base, following in zip(self._segments, self._segments[1:], strict=False) if following <= oldest
        ]
        gone = [checkpoint_name(*snapshot) for snapshot in covered[:-SNAPSHOTS_KEPT]]
        gone += [f"{base:020d}{LOG_SUFFIX}" for base in obsolete]
        self._snapshots = kept
        self._segments = self._segments[len(obsolete) :]
        self._positions = [one for one in self._positions if one[1] not in obsolete]

        def write() -> bytes:
            content = b"".join(batches)
            path = f"{self.folder}/{checkpoint_name(position.end_offset, position.epoch)}"
            with storage_errors(path):
                replace_file(self._fs, path, content)
                for name in gone:
                    self._fs.unlink(f"{self.folder}/{name}")
            return content

        return write

    def install_snapshot(self, content: bytes, position: SnapshotPosition) -> None:
        """Put a snapshot that the leader has sent in place of the whole log."""
        self.close()
        path = f"{self.folder}/{checkpoint_name(position.end_offset, position.epoch)}"
        with storage_errors(path):
            replace_file(self._fs, path, content)
        self._segment_end = -1
        self._damage = ""
        self._snapshots = [*self._snapshots, (position.end_offset, position.epoch)]
        self._epochs = []
        self._positions = []
        self._note(position.end_offset, position.end_offset - 1, position.epoch)

    # Inside.

    def _note(self, end_offset: int, first_offset: int, epoch: int) -> None:
        self.end_offset = end_offset
        if not self._epochs or self._epochs[-1][1] != epoch:
            self._epochs.append((first_offset, epoch))

    def _note_position(self, segment: int, offset: int, position: int) -> None:
        """Remember where a batch begins, if the last one remembered is far enough away."""
        known = self._positions[-1] if self._positions else None
        if known is None or known[1] != segment or position - known[2] >= POSITION_INTERVAL_BYTES:
            self._positions.append((offset, segment, position))

    def _epoch_at(self, offset: int) -> int | None:
        """The epoch of a batch that is there; None for what is known from a snapshot only."""
        index = bisect_right(self._epochs, offset, key=lambda known: known[0])
        return self._epochs[index - 1][1] if index else None

    def _segment_path(self, base_offset: int) -> str:
        return f"{self.folder}/{base_offset:020d}{LOG_SUFFIX}"

    def _open(self) -> int:
        if self._descriptor < 0:
            self._descriptor = self._fs.open(self._segment_path(self._segments[-1]))
        return self._descriptor

    def _begin_segment(self) -> None:
        self.close()
        if not self._segments or self._segments[-1] != self.end_offset:
            self._segments.append(self.end_offset)
        with storage_errors(self._segment_path(self.end_offset)):
            self._fs.truncate(self._open(), 0)
        self._position = 0

    def _cut_damage(self) -> None:
        """The quorum tells the batches behind the damage again, so nothing is lost with them."""
        log.warning("%s; cut, because the quorum's journal holds what follows", self._damage)
        with storage_errors(self.folder):
            self._fs.truncate(self._open(), self._position)
            for base_offset in self._behind_damage:
                self._fs.unlink(self._segment_path(base_offset))
        self._damage = ""
        self._behind_damage = []


def _whole_batches(content: bytes, offset: int, max_bytes: int) -> tuple[int, int]:
    """Begin and end, in `content`, of the batch with this offset and as many behind it as go into `max_bytes`; that one alone may be larger."""
    begin, end = 0, 0
    while end + _BATCH_START.size <= len(content):
        base_offset, length = _BATCH_START.unpack_from(content, end)
        following = end + _BATCH_START.size + length
        if base_offset <= offset:
            begin = end
        elif following - begin > max_bytes or following > len(content):
            break
        end = following
    return begin, end
