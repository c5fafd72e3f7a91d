"""Every file format, byte by byte, as Apache Kafka 4.3 reads and writes it."""

from __future__ import annotations

import pytest

from kafkapy.errors import StorageError
from kafkapy.log import checkpoints
from kafkapy.log.epochs import EpochEntry, decode_epochs, encode_epochs
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.log.producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot
from kafkapy.log.producer_state import ProducedBatch, ProducerState
from kafkapy.log.sparse_index import OffsetIndex, TimeIndex
from kafkapy.log.txn_index import AbortedTxn, TxnIndex
from kafkapy.types import TopicPartition


def test_offset_index() -> None:
    """int32 relative offset, int32 position."""
    disk = MemoryFilesystem()
    index = OffsetIndex(disk, "/i", 1000, bytearray())
    index.append(1007, 0x1234)
    index.append(1100, 0x12345678)
    index.save()
    assert disk.files["/i"].data.hex() == "0000000700001234" + "0000006412345678"
    closed = OffsetIndex(disk, "/i", 1000, None)
    for reader in (index, closed):
        assert reader.lookup(1006) == (1000, 0)
        assert reader.lookup(1007) == reader.lookup(1099) == (1007, 0x1234)
        assert reader.lookup(5000) == (1100, 0x12345678)
        assert reader.lookup_position(0x1233) == (1000, 0)
        assert reader.lookup_position(0x1234) == (1007, 0x1234)


def test_time_index() -> None:
    """int64 timestamp, int32 relative offset; times that do not rise are left out."""
    disk = MemoryFilesystem()
    index = TimeIndex(disk, "/t", 1000, bytearray())
    index.append(0x0102030405, 1003)
    index.append(0x0102030405, 1004)
    index.append(0x0102030406, 1009)
    index.save()
    assert disk.files["/t"].data.hex() == "000000010203040500000003" + "000000010203040600000009"
    closed = TimeIndex(disk, "/t", 1000, None)
    assert closed.lookup(0x0102030405) == (0x0102030405, 1003)
    assert closed.lookup(5) == (-1, 1000)
    assert closed.last_entry() == (0x0102030406, 1009)


def test_index_that_grew_is_saved_from_where_it_was() -> None:
    """Saving writes only what is new, and cuts what a truncation dropped."""
    disk = MemoryFilesystem()
    index = OffsetIndex(disk, "/i", 0, bytearray())
    for offset in range(1, 6):
        index.append(offset, offset * 10)
    index.save()
    index.truncate_to(3)
    index.append(7, 70)
    index.save()
    again = OffsetIndex(disk, "/i", 0, None)
    again.load()
    assert [again.lookup(offset) for offset in (2, 6, 7)] == [(2, 20), (2, 20), (7, 70)]
    assert again.count() == 3


def test_transaction_index() -> None:
    """Version 0: 34 bytes for each aborted transaction."""
    disk = MemoryFilesystem()
    index = TxnIndex(disk, "/x")
    index.append(AbortedTxn(0x1111, 0x22, 0x33, 0x44))
    index.append(AbortedTxn(0x1112, 0x23, 0x53, 0x54))
    assert disk.files["/x"].data.hex() == (
        "0000" "0000000000001111" "0000000000000022" "0000000000000033" "0000000000000044"
        "0000" "0000000000001112" "0000000000000023" "0000000000000053" "0000000000000054"
    )  # fmt: skip
    again = TxnIndex(disk, "/x")
    assert again.entries() == index.entries()
    again.truncate_to(0x53)
    assert again.entries() == [AbortedTxn(0x1111, 0x22, 0x33, 0x44)] and len(disk.files["/x"].data) == 34


SNAPSHOT = (
    "0001" "e6d2e4cf" "00000002"
    "0000000000000007" "0003" "00000009" "0000000000000064" "00000002" "000000000000ffff" "00000005" "0000000000000062"
    "0000000000000008" "0000" "ffffffff" "ffffffffffffffff" "00000000" "0000000000000001" "ffffffff" "ffffffffffffffff"
)  # fmt: skip


def snapshot_states() -> dict[int, ProducerState]:
    first, second = ProducerState(7), ProducerState(8)
    first.epoch, first.coordinator_epoch, first.last_timestamp, first.txn_first_offset = 3, 5, 0xFFFF, 0x62
    first.add_batch(ProducedBatch(7, 9, 0x62, 0x64, 0xFFFF))
    second.epoch, second.last_timestamp = 0, 1
    return {7: first, 8: second}


def test_producer_snapshot() -> None:
    """Version 1, with the CRC-32C of all that follows it."""
    data = encode_snapshot(snapshot_states())
    assert data.hex() == SNAPSHOT
    again = decode_snapshot(data)
    assert encode_snapshot(again) == data
    assert again[7].batches == [ProducedBatch(7, 9, 0x62, 0x64, 0xFFFF)] and again[7].next_sequence == 10
    assert again[8].batches == [] and again[8].txn_first_offset == -1


@pytest.mark.parametrize("size", range(102))
def test_cut_snapshot_is_recognised(size: int) -> None:
    """Its checksum, or its length, tells a part from the whole."""
    data = encode_snapshot(snapshot_states())
    assert len(data) == 102
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(data[:size])


@pytest.mark.parametrize("position", range(0, 102, 3))
def test_garbled_snapshot_is_recognised(position: int) -> None:
    """No flipped bit goes unnoticed."""
    data = bytearray(encode_snapshot(snapshot_states()))
    data[position] ^= 0x10
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(data))


def test_leader_epoch_checkpoint() -> None:
    """Version, number of lines, then epoch and start offset."""
    entries = [EpochEntry(0, 0), EpochEntry(3, 1042)]
    assert encode_epochs(entries) == b"0\n2\n0 0\n3 1042\n"
    assert decode_epochs("f", b"0\n2\n0 0\n3 1042\n") == entries
    for wrong in (b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0 x\n", b"0\n1\n0\n", b"0\n2\n3 0\n2 9\n", b"\xff"):
        with pytest.raises(StorageError):
            decode_epochs("f", wrong)


def test_offset_checkpoint() -> None:
    """Version, number of lines, then topic, partition and offset."""
    offsets = {TopicPartition("orders", 0): 1042, TopicPartition("a.b_c-d", 11): 0}
    text = b"0\n2\norders 0 1042\na.b_c-d 11 0\n"
    assert checkpoints.encode_offsets(offsets) == text
    assert checkpoints.decode_offsets("f", text) == offsets
    for wrong in (b"", b"0\n2\norders 0 1\n", b"0\n1\norders 0\n", b"0\n1\norders 0 x\n", b"7\n0\n", b"\xff\n0\n"):
        with pytest.raises(StorageError):
            checkpoints.decode_offsets("f", wrong)


def test_partition_metadata() -> None:
    """Two lines, the last without a line end, as Kafka writes them."""
    topic_id = bytes.fromhex("73761dd63cd443428398bab54b9abb4f")
    text = b"version: 0\ntopic_id: c3Yd1jzUQ0KDmLq1S5q7Tw"
    assert checkpoints.encode_partition_metadata(topic_id) == text
    assert checkpoints.decode_partition_metadata("f", text + b"\n") == topic_id
    for wrong in (
        b"version: 1\ntopic_id: c3Yd1jzUQ0KDmLq1S5q7Tw",
        b"version: 0\ntopic_id: short",
        b"version: 0\n",
        b"x",
    ):
        with pytest.raises(StorageError):
            checkpoints.decode_partition_metadata("f", wrong)


def test_clean_shutdown_file() -> None:
    """JSON with version and broker epoch; the empty file of older versions counts, a missing one does not."""
    disk = MemoryFilesystem()
    assert checkpoints.read_clean_shutdown(disk, "/d") is None
    checkpoints.write_clean_shutdown(disk, "/d", 12)
    assert disk.files["/d/.kafka_cleanshutdown"].data == b'{"version":0,"brokerEpoch":12}'
    assert checkpoints.read_clean_shutdown(disk, "/d") == 12
    disk.files["/d/.kafka_cleanshutdown"].data.clear()
    assert checkpoints.read_clean_shutdown(disk, "/d") == -1
    checkpoints.remove_clean_shutdown(disk, "/d")
    assert checkpoints.read_clean_shutdown(disk, "/d") is None


def test_meta_properties() -> None:
    """Version 1; comments, and the escapes of Java's properties, are understood."""
    disk = MemoryFilesystem()
    assert checkpoints.read_meta_properties(disk, "/d") is None
    checkpoints.write_meta_properties(disk, "/d", "Jh0DQwl8Rny3nqwV4TBuEQ", 3, bytes(16))
    written = bytes(disk.files["/d/meta.properties"].data)
    assert written == (
        b"cluster.id=Jh0DQwl8Rny3nqwV4TBuEQ\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=3\nversion=1\n"
    )
    java = b"#\n#Wed Jun 17 14:46:00 UTC 2026\ncluster.id=a\\:b\\=c\nversion=1\nnode.id=3\n"
    disk.files["/d/meta.properties"].data[:] = java
    assert checkpoints.read_meta_properties(disk, "/d") == {"cluster.id": "a:b=c", "version": "1", "node.id": "3"}
    disk.files["/d/meta.properties"].data[:] = b"version=0\nbroker.id=3\n"
    with pytest.raises(StorageError):
        checkpoints.read_meta_properties(disk, "/d")


def test_uuids_are_base64url_without_padding() -> None:
    """The form that Kafka prints."""
    assert checkpoints.format_uuid(b"\xff" * 16) == "_____________________w"
    assert checkpoints.parse_uuid("_____________________w") == b"\xff" * 16
    with pytest.raises(ValueError, match="no uuid"):
        checkpoints.parse_uuid("abc")


def test_replacing_a_file_is_all_or_nothing() -> None:
    """At whatever step it stops, the old content or the new is there."""
    steps = 0
    while True:
        disk = MemoryFilesystem()
        checkpoints.write_offsets(disk, "/d/f", {TopicPartition("a", 0): 1})
        count = 0

        def stop(operation: str, path: str) -> OSError | None:
            nonlocal count
            count += 1
            return OSError(5, "stopped") if count > steps else None  # noqa: B023

        disk.fault = stop
        try:
            checkpoints.write_offsets(disk, "/d/f", {TopicPartition("a", 0): 2})
        except StorageError:
            found = checkpoints.read_offsets(disk.after_power_loss(), "/d/f")
            assert found in ({TopicPartition("a", 0): 1}, {TopicPartition("a", 0): 2})
            steps += 1
            continue
        assert checkpoints.read_offsets(disk.after_power_loss(), "/d/f") == {TopicPartition("a", 0): 2}
        break
    assert steps >= 4
