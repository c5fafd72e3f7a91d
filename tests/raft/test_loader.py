"""The loader: batches become images, publishers hear of them in order, and a metadata transaction counts as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafkapy.raft.image import MetadataImage
from kafkapy.raft.loader import MetadataLoader
from kafkapy.raft.metadata_batches import encode_committed, frame_records, read_batches
from kafkapy.raft.metadata_log import MetadataLog
from kafkapy.raft.quorum import CommittedBatch
from kafkapy.wire import metadata_records as records
from kafkapy.wire.records import ControlType
from kafkapy.wire.schema import Record
from tests.raft.support import CLUSTER_ID

FEATURE = records.FeatureLevelRecord(name="metadata.version", feature_level=30)


class Loading:
    """A loader whose publishers keep what they are told."""

    def __init__(self, folder: Path) -> None:
        self.told: list[tuple[str, MetadataImage]] = []
        publishers: list[Any] = [
            lambda delta, image: self.told.append(("first", image)),
            lambda delta, image: self.told.append(("second", image)),
        ]
        self.loader = MetadataLoader(CLUSTER_ID, MetadataLog(str(folder), (1,)), publishers)
        self.loader.load()

    def commit(self, *changes: Record) -> MetadataImage:
        batch = CommittedBatch(self.loader.image.next_offset, 1, 1, 50, frame_records(changes, 30))
        self.loader.commit(batch)
        return self.loader.image


def test_publishers_are_told_in_their_order(tmp_path: Path) -> None:
    """The empty image at the start, then one image for each batch, each to the first publisher first."""
    loading = Loading(tmp_path)
    image = loading.commit(FEATURE)
    assert [name for name, _ in loading.told] == ["first", "second"] * 2
    assert loading.told[-1][1] is image
    assert (image.offset, image.epoch, image.timestamp_ms, image.metadata_version) == (0, 1, 50, 30)


def test_a_batch_that_is_told_again_changes_nothing(tmp_path: Path) -> None:
    """After a restart the quorum repeats what the log already holds."""
    loading = Loading(tmp_path)
    batch = CommittedBatch(0, 1, 1, 50, frame_records([FEATURE], 30))
    loading.loader.commit(batch)
    told = len(loading.told)
    loading.loader.commit(batch)
    assert len(loading.told) == told
    assert Loading(tmp_path).loader.image == loading.loader.image


def test_a_transaction_counts_as_a_whole(tmp_path: Path) -> None:
    """Its records wait for its end, over several batches; aborted ones never count; the offset goes on all the same."""
    loading = Loading(tmp_path)
    image = loading.commit(records.BeginTransactionRecord(name="Bootstrap records"), FEATURE)
    assert (image.offset, image.features) == (1, {})
    image = loading.commit(records.FeatureLevelRecord(name="group.version", feature_level=1))
    assert image.features == {}
    image = loading.commit(records.EndTransactionRecord())
    assert image.features == {"metadata.version": 30, "group.version": 1}
    loading.commit(records.BeginTransactionRecord(), records.FeatureLevelRecord(name="group.version", feature_level=0))
    image = loading.commit(records.AbortTransactionRecord(reason="no"), records.NoOpRecord())
    assert (image.offset, image.features["group.version"]) == (7, 1)
    assert Loading(tmp_path).loader.image == image


def test_an_epoch_begins_with_the_batch_that_kafka_writes() -> None:
    """A control batch whose record names the leader and the voters, byte for byte as Apache Kafka 4.3 has it."""
    batch = encode_committed(CommittedBatch(0, 1, 1, 1795005556565, ()), (1,))
    assert len(batch) == 91
    assert batch[61:].hex() == "3a0000000800000002260000000000010200000001000200000001000000"
    (stored,) = read_batches(bytes(batch))
    assert (stored.control, stored.epoch, stored.next_offset) == (ControlType.LEADER_CHANGE, 1, 1)
