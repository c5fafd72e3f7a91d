"""How far each log is compacted: the cleaner's checkpoint in each data folder, in Kafka's format.

    cleaner-offset-checkpoint

        0                version
        1                number of lines that follow
        orders 0 1042    topic, partition, and the offset where its dirty part begins

A line that is missing or wrong costs a round over the whole log and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Container

from kafkapy.errors import StorageError
from kafkapy.log.checkpoints import read_offsets, write_offsets
from kafkapy.log.filesystem import Filesystem
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"


class CleanerCheckpoint:
    """The first dirty offsets of the logs in one data folder."""

    __slots__ = ("_fs", "_offsets", "_topic_ids", "path")

    def __init__(self, fs: Filesystem, folder: str) -> None:
        """Read the file. One that cannot be understood counts as missing."""
        self._fs = fs
        self.path = f"{folder}/{CLEANER_OFFSET_FILE}"
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._offsets: dict[TopicPartition, int] = {}
        try:
            self._offsets = read_offsets(fs, self.path)
        except StorageError as error:
            if isinstance(error.__cause__, OSError):
                raise
            logger.warning("ignoring a checkpoint: %s", error)

    def get(self, topic_partition: TopicPartition, topic_id: bytes) -> int | None:
        """Where the log's dirty part begins; None when it never was compacted. A topic of the same name inherits nothing."""
        if self._topic_ids.setdefault(topic_partition, topic_id) != topic_id:
            self.forget(topic_partition)
        return self._offsets.get(topic_partition)

    def set(self, topic_partition: TopicPartition, topic_id: bytes, offset: int) -> None:
        """The log is clean up to an offset."""
        self._topic_ids[topic_partition] = topic_id
        self._offsets[topic_partition] = offset

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition is gone, or nothing is known of it any more."""
        self._topic_ids.pop(topic_partition, None)
        self._offsets.pop(topic_partition, None)

    def forget_missing(self, present: Container[TopicPartition]) -> bool:
        """Forget the partitions that are not `present` and have no folder either; whether there were any."""
        folder = self.path.rpartition("/")[0]
        gone = [name for name in self._offsets if name not in present and not self._fs.exists(f"{folder}/{name}")]
        for name in gone:
            self.forget(name)
        return bool(gone)

    def offsets(self) -> dict[TopicPartition, int]:
        """A copy of the content, to be given to `write` in any thread."""
        return dict(self._offsets)

    def write(self, offsets: dict[TopicPartition, int]) -> None:
        """Replace the file, which waits for the disk. Raises StorageError."""
        write_offsets(self._fs, self.path, offsets)
