"""What the generated codecs call when the common case, which they do inline, does not hold.

Unsigned varint: seven bits per byte, lowest first, the top bit says that another byte follows; at most five bytes. A compact
length is the unsigned varint of length + 1, 0 stands for null. A tag section is the number of tagged fields, then for each
its tag, its size in bytes (all three unsigned varints) and its content.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from kafkapy.errors import ProtocolError
from kafkapy.wire.schema import EncodeError

Buffer = bytes | bytearray | memoryview

STRING_BYTES_MAX = 32767

_UVARINT_MAX = 0xFFFFFFFF


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The unsigned varint at `pos`, and the position after it."""
    first = buf[pos]
    return (first, pos + 1) if first < 128 else read_uvarint_rest(buf, pos + 1, first)


def read_uvarint_rest(buf: Buffer, pos: int, value: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, which has its top bit set, is already read."""
    value &= 127
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > _UVARINT_MAX:
                break
            return value, pos
    raise ProtocolError("an unsigned varint is longer than 32 bits")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def skip_tags(buf: Buffer, pos: int, end: int, count: int) -> int:
    """The position after a tag section of which nothing is known; `count` is its first byte, which is already read."""
    if count > 127:
        count, pos = read_uvarint_rest(buf, pos, count)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise ProtocolError("a tagged field ends after the message")
    return pos


def read_bytes(buf: Buffer, pos: int, end: int, size: int) -> tuple[bytes, int]:
    """`size` bytes, which may be as wrong as a peer likes."""
    after = pos + size
    if size < 0 or after > end:
        raise ProtocolError(f"{size} bytes do not fit into the {end - pos} that are left")
    return bytes(buf[pos:after]), after


def read_string(buf: Buffer, pos: int, end: int, size: int) -> tuple[str, int]:
    """A string of `size` bytes, which may be as wrong as a peer likes."""
    if size > STRING_BYTES_MAX:
        raise ProtocolError(f"a string of {size} bytes is longer than {STRING_BYTES_MAX}")
    raw, after = read_bytes(buf, pos, end, size)
    return raw.decode(), after


def read_compact_bytes(buf: Buffer, pos: int, end: int, first: int) -> tuple[bytes, int]:
    """Bytes whose compact length has more than one byte; the first is already read."""
    size, pos = read_uvarint_rest(buf, pos, first)
    return read_bytes(buf, pos, end, size - 1)


def read_compact_string(buf: Buffer, pos: int, end: int, first: int) -> tuple[str, int]:
    """A string whose compact length has more than one byte; the first is already read."""
    size, pos = read_uvarint_rest(buf, pos, first)
    return read_string(buf, pos, end, size - 1)


def read_compact_nullable_bytes(buf: Buffer, pos: int, end: int, first: int) -> tuple[bytes | None, int]:
    """The same where null is allowed: 0 may be written in more bytes than it needs."""
    size, pos = read_uvarint_rest(buf, pos, first)
    return read_bytes(buf, pos, end, size - 1) if size else (None, pos)


def read_compact_nullable_string(buf: Buffer, pos: int, end: int, first: int) -> tuple[str | None, int]:
    """The same where null is allowed: 0 may be written in more bytes than it needs."""
    size, pos = read_uvarint_rest(buf, pos, first)
    return read_string(buf, pos, end, size - 1) if size else (None, pos)


def write_compact_string_length(out: bytearray, length: int) -> None:
    """Append the compact length, which is one more than the size, of a string that is not short."""
    if length > STRING_BYTES_MAX + 1:
        raise EncodeError(f"a string of {length - 1} bytes is longer than {STRING_BYTES_MAX}")
    write_uvarint(out, length)


def _null(buf: Buffer, pos: int) -> NoReturn:
    raise ProtocolError("null where the protocol has none")


# Short byte strings are read through one Struct per length: about a third faster than slicing for any kind of buffer, and at the
# buffer's end it raises where a slice would be cut short. The second table is indexed by a compact length.
UNPACK_BYTES: tuple[Callable[[Any, int], tuple[bytes]], ...] = tuple(
    struct.Struct(f"{size}s").unpack_from for size in range(127)
)
UNPACK_COMPACT_BYTES: tuple[Callable[[Any, int], tuple[bytes]], ...] = (_null, *UNPACK_BYTES)

_SHORT_ARRAY = 8


def array_unpackers(code: str) -> tuple[Callable[[Any, int], tuple[Any, ...]], ...]:
    """Functions that unpack 0, 1, 2, ... numbers of the same kind, for the short arrays that most are."""
    return tuple(struct.Struct(f">{count}{code}").unpack_from for count in range(_SHORT_ARRAY))
