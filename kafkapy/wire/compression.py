"""The five codecs of record batches: none, gzip, snappy, lz4, zstd.

    compress(codec, level, data) -> bytes          level None: Kafka's default for the codec
    decompress(codec, data, max_bytes) -> bytes    never more than max_bytes of output, not even for a moment

What is decompressed comes from clients, so every decoder here takes its output in chunks (or checks a length that the data
announces against what that many input bytes can stand for) and raises CORRUPT_MESSAGE as soon as the bound is passed: a bomb costs
the bound plus one chunk. Input that ends early, that goes on after its end or that is not of the codec raises the same. Work is in
proportion to input plus output: no decoder copies the rest of its input again and again.

On the wire: gzip is RFC 1952, several members allowed. Snappy is xerial's framing, which Kafka's Java client writes: 8 magic bytes,
two int32 versions, then for each block an int32 length and a raw snappy block of at most 32 KiB of input; a bare raw block
(librdkafka, kafka-python) is read as well. lz4 is its frame format, zstd is RFC 8878; both may hold several frames.

Codec libraries are imported when the first batch needs one, since each costs more than the rest of a start's wire layer.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from io import BytesIO

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.limits import DECOMPRESSED_BATCH_BYTES_MAX

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The number in the attributes of a batch; the names in lower case are the values of compression.type."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CHUNK_BYTES = 1024 * 1024


def compress(codec: int, level: int | None, data: Buffer) -> bytes:
    """`data` in the form that a batch with this codec carries."""
    return _COMPRESSORS[codec](level, data)


def decompress(codec: int, data: Buffer, max_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX) -> bytes:
    """The reverse of `compress`; KafkaError(CORRUPT_MESSAGE) for damaged data, an unknown codec or output beyond `max_bytes`."""
    decoder = _DECOMPRESSORS.get(codec)
    if decoder is None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no compression has the number {codec}")
    return decoder(memoryview(data), max_bytes)


def _damaged(codec: str, why: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"damaged {codec} data: {why}")


class _Output:
    """Collects chunks and refuses the one that would pass the bound; `getvalue` of BytesIO hands the bytes out without a copy."""

    __slots__ = ("_chunks", "_codec", "room")

    def __init__(self, codec: str, max_bytes: int) -> None:
        self._chunks = BytesIO()
        self._codec = codec
        self.room = max_bytes

    def add(self, chunk: bytes) -> None:
        self.room -= len(chunk)
        if self.room < 0:
            raise _damaged(self._codec, "it decompresses to more than a batch may hold")
        self._chunks.write(chunk)

    @property
    def next_chunk_bytes(self) -> int:
        """One byte more than the room left is enough to notice that the bound is passed."""
        return min(_CHUNK_BYTES, self.room + 1)

    def getvalue(self) -> bytes:
        return self._chunks.getvalue()


def _store(level: int | None, data: Buffer) -> bytes:
    return bytes(data)


def _restore(data: memoryview, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "more records than a batch may hold")
    return bytes(data)


# gzip -----------------------------------------------------------------------------------------------------------------


_GZIP_WBITS = 31  # 15 bits of window, and 16 for the gzip container
_GZIP_INPUT_BYTES = 4 * 1024


def _gzip_compress(level: int | None, data: Buffer) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WBITS)
    return compressor.compress(data) + compressor.flush()


def _gzip_decompress(data: memoryview, max_bytes: int) -> bytes:
    """Input is fed in slices that grow while one member goes on: a decoder object copies what it did not use of its input."""
    output = _Output("gzip", max_bytes)
    position, end = 0, len(data)
    while position < end or end == 0:
        decoder = zlib.decompressobj(wbits=_GZIP_WBITS)
        step = _GZIP_INPUT_BYTES
        while not decoder.eof:
            if position == end:
                raise _damaged("gzip", "it ends early")
            feed = data[position : position + step]
            try:
                output.add(decoder.decompress(feed, output.next_chunk_bytes))
            except zlib.error as error:
                raise _damaged("gzip", error) from None
            left = len(decoder.unused_data) if decoder.eof else len(decoder.unconsumed_tail)
            position += len(feed) - left
            step = min(step * 2, _CHUNK_BYTES)
    return output.getvalue()


# snappy ---------------------------------------------------------------------------------------------------------------


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")

# The best that the format can do: a copy of 64 bytes takes 3 bytes of input.
_SNAPPY_RATIO_MAX = 22


def _snappy_compress(level: int | None, data: Buffer) -> bytes:
    from snappy import compress as compress_block

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = compress_block(bytes(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _snappy_decompress(data: memoryview, max_bytes: int) -> bytes:
    output = _Output("snappy", max_bytes)
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        _snappy_block(data, output)
        return output.getvalue()
    position, end = 0, len(data)
    while position < end:
        # Streams may be put one after another, each with its header; its versions have never been other than 1.
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > end:
                raise _damaged("snappy", "it ends within its header")
            continue
        if end - position < _BLOCK_LENGTH.size:
            raise _damaged("snappy", "it ends early")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= end - position:
            raise _damaged("snappy", f"a block of {length} bytes where {end - position} are left")
        _snappy_block(data[position : position + length], output)
        position += length
    return output.getvalue()


def _snappy_block(block: memoryview, output: _Output) -> None:
    """One raw block. It begins with its decompressed length, which the library allocates at once, so it is checked before."""
    from snappy import UncompressError, uncompress

    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise _damaged("snappy", "a block without its length")
    if length > output.room or length > len(block) * _SNAPPY_RATIO_MAX:
        raise _damaged("snappy", f"a block of {len(block)} bytes that claims to hold {length}")
    try:
        output.add(uncompress(bytes(block)))
    except UncompressError as error:
        raise _damaged("snappy", error.__cause__ or error) from None


# lz4 ------------------------------------------------------------------------------------------------------------------


# Kafka's default level is called 9 but stands for lz4's fast compressor; any other level is the high compressor's.
_LZ4_LEVEL_DEFAULT = 9
_LZ4_FAST = 0


def _lz4_compress(level: int | None, data: Buffer) -> bytes:
    """Independent blocks of 64 KiB and no content size: Kafka's Java client cannot read linked blocks."""
    from lz4.frame import BLOCKSIZE_MAX64KB
    from lz4.frame import compress as compress_frame

    compressed: bytes = compress_frame(
        data,
        compression_level=_LZ4_FAST if level is None or level == _LZ4_LEVEL_DEFAULT else level,
        block_size=BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _lz4_decompress(data: memoryview, max_bytes: int) -> bytes:
    from lz4.frame import create_decompression_context, decompress_chunk

    output = _Output("lz4", max_bytes)
    position, end = 0, len(data)
    while position < end or end == 0:
        context = create_decompression_context()
        frame_is_complete = False
        while not frame_is_complete:
            try:
                chunk, used, frame_is_complete = decompress_chunk(
                    context, data[position:], max_length=output.next_chunk_bytes
                )
            except RuntimeError as error:
                raise _damaged("lz4", error) from None
            if not chunk and not used and not frame_is_complete:
                raise _damaged("lz4", "it ends early")
            position += used
            output.add(chunk)
    return output.getvalue()


# zstd -----------------------------------------------------------------------------------------------------------------


_ZSTD_LEVEL_DEFAULT = 3
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50  # and the 15 that follow it
_ZSTD_SINGLE_SEGMENT = 0x20
_ZSTD_CHECKSUM = 0x04
_ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
_ZSTD_SIZE_BYTES = (0, 2, 4, 8)
_ZSTD_RLE = 1
_ZSTD_RESERVED = 3


def _zstd_compress(level: int | None, data: Buffer) -> bytes:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=_ZSTD_LEVEL_DEFAULT if level is None else level).compress(data)


def _zstd_decompress(data: memoryview, max_bytes: int) -> bytes:
    from zstandard import ZstdDecompressor, ZstdError

    _zstd_check_frames(data)
    output = _Output("zstd", max_bytes)
    with ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        try:
            while chunk := reader.read(output.next_chunk_bytes):
                output.add(chunk)
        except ZstdError as error:
            raise _damaged("zstd", error) from None
    return output.getvalue()


def _zstd_check_frames(data: memoryview) -> None:
    """Walk over frame and block headers to see that the input ends where a frame ends: the library's reader, the only one that
    bounds its output, ends silently on a frame that is cut short."""
    position, end = 0, len(data)
    while position < end or end == 0:
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        elif magic == _ZSTD_MAGIC and position + 5 <= end:
            position = _zstd_frame_end(data, position, end)
        else:
            raise _damaged("zstd", "not a frame")
        if position > end:
            raise _damaged("zstd", "it ends early")


def _zstd_frame_end(data: memoryview, position: int, end: int) -> int:
    """Where the frame ends; beyond `end` for one that is cut short."""
    descriptor = data[position + 4]
    single_segment = descriptor & _ZSTD_SINGLE_SEGMENT
    size_bytes = _ZSTD_SIZE_BYTES[descriptor >> 6] or (1 if single_segment else 0)
    position += 5 + (0 if single_segment else 1) + _ZSTD_DICTIONARY_BYTES[descriptor & 3] + size_bytes
    last = 0
    while not last:
        if position + 3 > end:
            return end + 1
        block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind == _ZSTD_RESERVED:
            raise _damaged("zstd", "a block of a reserved kind")
        position += 3 + (1 if kind == _ZSTD_RLE else size)
    return position + (4 if descriptor & _ZSTD_CHECKSUM else 0)


_COMPRESSORS: dict[int, Callable[[int | None, Buffer], bytes]] = {
    Codec.NONE: _store,
    Codec.GZIP: _gzip_compress,
    Codec.SNAPPY: _snappy_compress,
    Codec.LZ4: _lz4_compress,
    Codec.ZSTD: _zstd_compress,
}
_DECOMPRESSORS: dict[int, Callable[[memoryview, int], bytes]] = {
    Codec.NONE: _restore,
    Codec.GZIP: _gzip_decompress,
    Codec.SNAPPY: _snappy_decompress,
    Codec.LZ4: _lz4_decompress,
    Codec.ZSTD: _zstd_decompress,
}
