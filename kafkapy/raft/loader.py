"""From committed batches to images: what is on disk at start, then one batch after the other.

Each batch is appended to the metadata log, replayed into a delta, and the delta makes the next image. Then the publishers are told, always in the
order in which they were given: first who opens logs, last who answers clients.

A metadata transaction (Apache Kafka's controllers write one around their first records) counts as a whole: its records are held back
until it ends, while the image's offset moves on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkapy.raft.delta import MetadataDelta, delta_between
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.image_records import image_records
from kafkapy.raft.metadata_batches import StoredBatch, snapshot_batches
from kafkapy.raft.metadata_log import MetadataLog
from kafkapy.raft.quorum import CommittedBatch, SnapshotPosition
from kafkapy.wire.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from kafkapy.wire.record_framing import decode_metadata_record
from kafkapy.wire.schema import Record

Publisher = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLoader:
    """The committed image, and how it moves on."""

    def __init__(self, cluster_id: str, log: MetadataLog, publishers: Iterable[Publisher]) -> None:
        self.image = MetadataImage(cluster_id)
        self._log = log
        self._publishers = tuple(publishers)
        self._held: list[Record] | None = None

    def load(self) -> None:
        """Read the snapshot and the log behind it, and publish the whole as one delta."""
        first = MetadataDelta(self.image)
        position = [SnapshotPosition(0, 0, -1, 0)]

        def restore(records: list[Record], snapshot: SnapshotPosition) -> None:
            self._replay(first, records)
            position[0] = snapshot

        def replay(batch: StoredBatch) -> None:
            self._replay(first, batch.records)
            position[0] = SnapshotPosition(batch.next_offset, batch.epoch, -1, batch.timestamp_ms)

        self._log.load(restore, replay)
        end_offset, epoch, _, timestamp_ms = position[0]
        self._publish(first, first.apply(end_offset - 1, epoch, timestamp_ms))

    def commit(self, batch: CommittedBatch) -> None:
        """Take in the next batch, unless it was there before the restart."""
        if not self._log.append(batch):
            return
        delta = MetadataDelta(self.image)
        self._replay(delta, [decode_metadata_record(record)[0] for record in batch.records])
        self._publish(delta, delta.apply(batch.next_offset - 1, batch.epoch, batch.timestamp_ms))

    def install(self, position: SnapshotPosition, content: bytes, records: list[Record]) -> None:
        """Go over to a snapshot that the leader has sent."""
        whole = MetadataDelta(MetadataImage(self.image.cluster_id))
        for record in records:
            whole.replay(record)
        self._log.install_snapshot(content, position)
        image = whole.apply(position.end_offset - 1, position.epoch, position.timestamp_ms)
        self._held = None
        self._publish(delta_between(self.image, image), image)

    def prepare_snapshot(self, position: SnapshotPosition) -> Callable[[], bytes]:
        """What writes a snapshot of the image as it is now; it may run anywhere, because the image doesn't change."""
        image = self.image
        assert image.next_offset == position.end_offset, "a snapshot covers exactly what has been committed"
        return self._log.prepare_snapshot(
            snapshot_batches(image_records(image), position, image.metadata_version), position
        )

    def _replay(self, delta: MetadataDelta, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                self._held = []
            elif isinstance(record, AbortTransactionRecord):
                self._held = None
            elif isinstance(record, EndTransactionRecord):
                held, self._held = self._held or [], None
                for earlier in held:
                    delta.replay(earlier)
            elif self._held is not None:
                self._held.append(record)
            else:
                delta.replay(record)

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for publish in self._publishers:
            publish(delta, image)
