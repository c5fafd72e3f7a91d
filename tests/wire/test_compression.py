"""Every codec gives back what it was given, reads what other clients write, and stops at its bound."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.compression import Codec, compress, decompress

CODECS = list(Codec)
COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b"record %d of a batch that compresses well, " % number for number in range(5000))
ROOM = 16 * 1024 * 1024


def refused(codec: Codec, data: bytes, max_bytes: int = ROOM) -> bool:
    """Whether decompressing is refused in the one way that is allowed."""
    try:
        decompress(codec, data, max_bytes)
    except KafkaError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE
        return True
    return False


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, len(TEXT)])
def test_round_trip(codec: Codec, size: int) -> None:
    """Sizes around the block size of xerial's snappy framing included; any bytes-like input will do."""
    data = TEXT[:size]
    for form in (data, bytearray(data), memoryview(data)):
        packed = compress(codec, None, form)
        assert decompress(codec, packed, size) == data
        assert decompress(codec, memoryview(packed), size) == data


@given(st.sampled_from(CODECS), st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_round_trip_of_anything(codec: Codec, data: bytes) -> None:
    """Incompressible input takes other paths in the codecs than text does."""
    assert decompress(codec, compress(codec, None, data), len(data)) == data


@pytest.mark.parametrize(
    ("codec", "level"), [(1, -1), (1, 1), (1, 9), (3, 1), (3, 9), (3, 17), (4, -5), (4, 1), (4, 19)]
)
def test_levels(codec: int, level: int) -> None:
    """The levels that Kafka's configuration allows work, from end to end of the range."""
    assert decompress(codec, compress(codec, level, TEXT), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_is_exact(codec: Codec) -> None:
    """As much as is allowed comes out, one byte more is refused."""
    packed = compress(codec, None, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    assert refused(codec, packed, len(TEXT) - 1)
    assert refused(codec, packed, 0)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_stops_at_the_bound(codec: Codec) -> None:
    """Decompressing a bomb costs no more memory than the bound and one chunk."""
    bomb = compress(codec, None, bytes(24 * 1024 * 1024))
    compress(codec, None, b"imports the library before memory is measured")
    bound = 4 * 1024 * 1024
    tracemalloc.start()
    try:
        assert refused(codec, bomb, bound)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # BytesIO grows by an eighth, and snappy's input is copied.
    assert peak < bound * 1.2 + 1.5 * 1024 * 1024 + len(bomb)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_cut_short_at_every_byte(codec: Codec) -> None:
    """Whatever is missing at the end is noticed; only snappy's framing does not say where it ends."""
    packed = compress(codec, None, TEXT[:3000])
    for size in range(len(packed)):
        if codec is Codec.SNAPPY and size == 16:
            assert decompress(codec, packed[:size], ROOM) == b""
        else:
            assert refused(codec, packed[:size])


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bytes_after_the_end_are_refused(codec: Codec) -> None:
    """A batch holds one stream and nothing else."""
    assert refused(codec, compress(codec, None, TEXT) + b"\x01\x02\x03")


@given(st.sampled_from(COMPRESSING), st.integers(0, 400), st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_garbled_data_raises_nothing_else(codec: Codec, at: int, flip: int) -> None:
    """Not every codec notices a changed byte, but none may fail in another way."""
    packed = bytearray(compress(codec, None, TEXT[:2000]))
    packed[at % len(packed)] ^= flip
    refused(codec, bytes(packed))


@given(st.sampled_from(COMPRESSING), st.binary(max_size=200))
@example(Codec.ZSTD, b"\x28\xb5\x2f\xfd")
@example(Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\x00\x07\x00\x00")
@example(Codec.LZ4, b"\x04\x22\x4d\x18")
@example(Codec.SNAPPY, b"\xff\xff\xff\xff\xff\xff")
@settings(max_examples=150, deadline=None)
def test_garbage_raises_nothing_else(codec: Codec, data: bytes) -> None:
    """Bytes that were never compressed are refused or, by luck, decompressed."""
    refused(codec, data)


def test_an_unknown_codec_is_refused() -> None:
    """Three bits can say 5, 6 and 7 as well."""
    for codec in (5, 6, 7):
        with pytest.raises(KafkaError, match="no compression has the number"):
            decompress(codec, b"", ROOM)


def test_gzip_members() -> None:
    """Several members are one stream, as gzip itself has it."""
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), ROOM) == b"one two"
    assert decompress(Codec.GZIP, gzip.compress(b"") * 3, ROOM) == b""


def test_many_small_gzip_members_take_linear_work() -> None:
    """A decoder that keeps copying the rest of its input would need minutes for this."""
    packed = gzip.compress(b"x") * 20_000
    assert decompress(Codec.GZIP, packed, ROOM) == b"x" * 20_000


def test_zlib_without_the_gzip_container_is_refused() -> None:
    """Kafka's gzip is gzip, not the bare stream."""
    assert refused(Codec.GZIP, zlib.compress(TEXT))


def test_snappy_is_written_in_xerial_framing() -> None:
    """The Java client reads nothing else from a broker that compresses."""
    packed = compress(Codec.SNAPPY, None, b"hello")
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert int.from_bytes(packed[16:20], "big") == len(packed) - 20
    assert snappy.uncompress(packed[20:]) == b"hello"


def test_snappy_raw_block_is_read() -> None:
    """Other clients send one bare block."""
    assert decompress(Codec.SNAPPY, snappy.compress(TEXT), len(TEXT)) == TEXT


def test_snappy_streams_one_after_another() -> None:
    """Xerial's reader goes on after a second header, so this one does."""
    packed = compress(Codec.SNAPPY, None, b"one ") + compress(Codec.SNAPPY, None, b"two")
    assert decompress(Codec.SNAPPY, packed, ROOM) == b"one two"


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x80\x80\x80\x08" + bytes(20),  # claims 2 GiB in 25 bytes
        b"\xff\xff\xff\x07" + bytes(20),  # claims 16 MiB, which the bound allows and the input cannot hold
        b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff",  # a block of length -1
        b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff",  # a block beyond the end
        b"\x80\x80\x80\x80\x80\x80\x01",  # a length that does not end
    ],
)
def test_snappy_lengths_are_not_believed(data: bytes) -> None:
    """The library allocates what a block announces, so an announcement is checked first."""
    assert refused(Codec.SNAPPY, data)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("block_checksum", [True, False])
@pytest.mark.parametrize("content_checksum", [True, False])
@pytest.mark.parametrize("store_size", [True, False])
def test_lz4_frames_of_every_kind(linked: bool, block_checksum: bool, content_checksum: bool, store_size: bool) -> None:
    """Clients write all of them."""
    packed = lz4.frame.compress(
        TEXT,
        block_linked=linked,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert decompress(Codec.LZ4, packed, len(TEXT)) == TEXT
    assert decompress(Codec.LZ4, packed + packed, 2 * len(TEXT)) == TEXT + TEXT


def test_lz4_is_written_as_java_reads_it() -> None:
    """Version 1, independent blocks of at most 64 KiB: Kafka's Java client refuses linked blocks."""
    packed = compress(Codec.LZ4, None, TEXT)
    info = lz4.frame.get_frame_info(packed)
    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024


def test_lz4_wrong_header_checksum_is_refused() -> None:
    """Clients older than magic 2 computed it wrongly; Kafka accepts that in their batches only, which no longer exist."""
    packed = bytearray(compress(Codec.LZ4, None, TEXT))
    packed[6] ^= 0xFF
    assert refused(Codec.LZ4, bytes(packed))


def test_zstd_without_content_size() -> None:
    """Kafka's Java client streams, so its frames do not say how long they are."""
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert decompress(Codec.ZSTD, packed, len(TEXT)) == TEXT
    assert refused(Codec.ZSTD, packed, len(TEXT) - 1)
    for size in range(0, len(packed), 7):
        assert refused(Codec.ZSTD, packed[:size])


def test_zstd_frames() -> None:
    """Several frames, with a checksum or a skippable one between them, are one stream."""
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(b"one ")
    skippable = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"skip!"
    packed = checked + skippable + compress(Codec.ZSTD, None, b"two")
    assert decompress(Codec.ZSTD, packed, ROOM) == b"one two"
    assert refused(Codec.ZSTD, checked + skippable[:-1])
    assert refused(Codec.ZSTD, checked[:-1])
