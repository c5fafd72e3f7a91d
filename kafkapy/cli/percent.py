r"""Percent formats: one grammar for printing records and for reading them back.

    %t topic       %k key      %v value        %h{...} each header, with %k %v %K %V inside     %p partition   %o offset
    %T its size    %K size     %V size         %H number of headers                             %d timestamp   %e leader epoch
    %a attributes  %x producer id   %y producer epoch   %[ start, %| stable and %] end of the partition   %i count from 1
    %% %{ %} themselves; \n \t \r \\ \0 \xHH

Modifiers in braces say how a value is written:
    %t %k %v       hex  base64  json (a JSON string, null for null)  big8 ... big64, little8 ... (bytes shown as a number)
    numbers        ascii (default)  hex8 ... hex64  big8 ... big64  little8 ... little64
    %d             ms (default)  s  iso  or a strftime pattern such as %d{%Y-%m-%d %H:%M:%S}

A size is -1 for null. Reading goes by the same format: a key or value whose size was read before has that many bytes; hex,
base64, numbers and JSON end by themselves or at the text that follows; all else ends at the text that follows, or with the
input. Headers are as many as %H said, or as there are until the text that follows. A format that leaves open where a value ends
is refused for reading.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from kafkapy.client.fetcher import FetchedRecord
from kafkapy.client.producer import OutgoingRecord
from kafkapy.types import TopicPartition
from kafkapy.wire.record_batch import BatchHeader
from kafkapy.wire.records import Header, Record

_TEXTS = "tkv"
_SIZES = {"T": "t", "K": "k", "V": "v"}
_NUMBERS = "TKVHpoeaxyi[|]"
_HEADER_VERBS = "kvKV"
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_FIXED = re.compile(r"(hex|big|little)(8|16|32|64)")
_CHUNK_BYTES = 64 * 1024
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")


class FormatError(ValueError):
    """The format cannot be understood, or not read back."""


class ReadError(ValueError):
    """The input does not look as the format says."""


class Piece(NamedTuple):
    """Literal text, or a verb with its modifier; %h has a format of its own."""

    literal: bytes = b""
    verb: str = ""
    modifier: str = ""
    inner: tuple[Piece, ...] = ()


def parse_format(text: str) -> tuple[Piece, ...]:
    """The pieces of a format; literals that follow each other are one."""
    pieces, end = _parse(text, 0, nested=False)
    assert end == len(text)
    return pieces


def _parse(text: str, at: int, nested: bool) -> tuple[tuple[Piece, ...], int]:
    """Pieces up to the end, or up to the brace that closes a %h{...}; returns the position after it."""
    pieces: list[Piece] = []
    literal = bytearray()
    while at < len(text):
        char = text[at]
        if char == "}" and nested:
            break
        if char == "\\":
            escaped, at = _escape(text, at)
            literal += escaped
            continue
        if char != "%":
            literal += char.encode("utf-8", "surrogateescape")
            at += 1
            continue
        verb = text[at + 1 : at + 2]
        if verb in ("%", "{", "}"):
            literal += verb.encode()
            at += 2
            continue
        if literal:
            pieces.append(Piece(bytes(literal)))
            literal.clear()
        piece, at = _verb(text, at, nested)
        pieces.append(piece)
    if nested and at == len(text):
        raise FormatError("a %h{ without its closing brace")
    if literal:
        pieces.append(Piece(bytes(literal)))
    return tuple(pieces), at + (1 if nested else 0)


def _escape(text: str, at: int) -> tuple[bytes, int]:
    char = text[at + 1 : at + 2]
    if char == "x":
        digits = text[at + 2 : at + 4]
        if len(digits) != 2 or any(ord(digit) not in _HEX_DIGITS for digit in digits):
            raise FormatError(f"\\x{digits} is no byte; write two hexadecimal digits")
        return bytes.fromhex(digits), at + 4
    if char not in _ESCAPES:
        raise FormatError(f"\\{char} is no escape; there are \\n \\t \\r \\\\ \\0 \\xHH")
    return _ESCAPES[char], at + 2


def _verb(text: str, at: int, nested: bool) -> tuple[Piece, int]:
    verb = text[at + 1 : at + 2]
    allowed = _HEADER_VERBS if nested else _TEXTS + _NUMBERS + "dh"
    if not verb or verb not in allowed:
        where = "inside %h{...}" if nested else f"at position {at + 1}"
        raise FormatError(f"%{verb} {where} means nothing; there are {' '.join('%' + name for name in allowed)}")
    at += 2
    if verb == "h":
        if text[at : at + 1] != "{":
            raise FormatError("%h needs a format for each header, such as %h{%k=%v }")
        inner, at = _parse(text, at + 1, nested=True)
        return Piece(verb="h", inner=inner), at
    modifier = ""
    if text[at : at + 1] == "{":
        end = text.find("}", at)
        if end < 0:
            raise FormatError(f"%{verb}{{ without its closing brace")
        modifier = text[at + 1 : end]
        at = end + 1
    _check_modifier(verb, modifier)
    return Piece(verb=verb, modifier=modifier), at


def _check_modifier(verb: str, modifier: str) -> None:
    if verb == "d":
        known = modifier in ("", "ms", "s", "iso") or "%" in modifier
    elif verb in _TEXTS:
        fixed = _FIXED.fullmatch(modifier)
        known = modifier in ("", "hex", "base64", "json") or (fixed is not None and fixed[1] != "hex")
    else:
        known = modifier in ("", "ascii") or _FIXED.fullmatch(modifier) is not None
    if not known:
        raise FormatError(f"%{verb}{{{modifier}}}: no such modifier")


# Printing -------------------------------------------------------------------------------------------------------------

Printer = Callable[[FetchedRecord, int], bytes]

_NO_PARTITION = TopicPartition("", -1)
_NO_HEADER = BatchHeader(-1, 0, -1, 2, 0, 0, 0, -1, -1, -1, -1, -1, 0)


def make_printer(text: str) -> Printer:
    """A function (record, count) -> bytes for a format."""
    parts = [_printer(piece) for piece in parse_format(text)]

    def show(fetched: FetchedRecord, count: int) -> bytes:
        return b"".join([part(fetched, count) for part in parts])

    return show


def _printer(piece: Piece) -> Printer:
    verb, modifier = piece.verb, piece.modifier
    if not verb:
        return lambda fetched, count: piece.literal
    if verb == "h":
        parts = [_printer(inner) for inner in piece.inner]

        def headers(fetched: FetchedRecord, count: int) -> bytes:
            shown = []
            for key, value in fetched.record.headers:
                header = Record(-1, -1, key.encode("utf-8", "surrogateescape"), value)
                shown.append(fetched._replace(record=header))
            return b"".join([part(header, count) for header in shown for part in parts])

        return headers
    if verb == "d":
        return lambda fetched, count: _time_text(fetched.record.timestamp, modifier)
    if verb in _TEXTS:
        get = _TEXT_OF[verb]
        if not modifier:
            return lambda fetched, count: get(fetched) or b""
        return lambda fetched, count: _encode_text(get(fetched), modifier)
    number_of = _NUMBER_OF[verb]
    if modifier in ("", "ascii"):
        return lambda fetched, count: b"%d" % number_of(fetched, count)
    return lambda fetched, count: _encode_number(number_of(fetched, count), modifier)


_TEXT_OF: dict[str, Callable[[FetchedRecord], bytes | None]] = {
    "t": lambda fetched: fetched.partition.topic.encode(),
    "k": lambda fetched: fetched.record.key,
    "v": lambda fetched: fetched.record.value,
}

_NUMBER_OF: dict[str, Callable[[FetchedRecord, int], int]] = {
    "T": lambda fetched, count: len(fetched.partition.topic.encode()),
    "K": lambda fetched, count: -1 if fetched.record.key is None else len(fetched.record.key),
    "V": lambda fetched, count: -1 if fetched.record.value is None else len(fetched.record.value),
    "H": lambda fetched, count: len(fetched.record.headers),
    "p": lambda fetched, count: fetched.partition.partition,
    "o": lambda fetched, count: fetched.record.offset,
    "e": lambda fetched, count: fetched.header.partition_leader_epoch,
    "a": lambda fetched, count: fetched.header.attributes,
    "x": lambda fetched, count: fetched.header.producer_id,
    "y": lambda fetched, count: fetched.header.producer_epoch,
    "i": lambda fetched, count: count,
    "[": lambda fetched, count: fetched.log_start_offset,
    "|": lambda fetched, count: fetched.last_stable_offset,
    "]": lambda fetched, count: fetched.high_watermark,
}


def _encode_text(value: bytes | None, modifier: str) -> bytes:
    if modifier == "json":
        return json.dumps(None if value is None else value.decode("utf-8", "surrogateescape")).encode()
    if value is None:
        return b""
    if modifier == "hex":
        return value.hex().encode()
    if modifier == "base64":
        return base64.b64encode(value)
    order, size = _order_and_size(modifier)
    if len(value) != size:
        raise FormatError(f"{{{modifier}}} shows {size} bytes as a number, but there are {len(value)}: {value[:40]!r}")
    return b"%d" % int.from_bytes(value, order, signed=True)


def _encode_number(number: int, modifier: str) -> bytes:
    found = _FIXED.fullmatch(modifier)
    assert found is not None
    size = int(found[2]) // 8
    number &= (1 << 8 * size) - 1
    if found[1] == "hex":
        return b"%0*x" % (2 * size, number)
    return number.to_bytes(size, "big" if found[1] == "big" else "little")


def _order_and_size(modifier: str) -> tuple[Any, int]:
    found = _FIXED.fullmatch(modifier)
    assert found is not None
    return found[1], int(found[2]) // 8


def _time_text(timestamp_ms: int, modifier: str) -> bytes:
    if modifier in ("", "ms"):
        return b"%d" % timestamp_ms
    if modifier == "s":
        return b"%d" % (timestamp_ms // 1000)
    from datetime import UTC, datetime, timedelta

    # Beyond the years that a calendar date can have there is only the number.
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return b"%d" % timestamp_ms
    if modifier == "iso":
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()
    return moment.strftime(modifier).encode()


# Reading --------------------------------------------------------------------------------------------------------------


class Source:
    """Bytes from a stream, taken piece by piece. `read` returns some bytes, or none at the end."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._buffer = bytearray()
        self._at = 0
        self._ended = False

    @classmethod
    def of(cls, stream: IO[bytes]) -> Source:
        """Everything in a file."""
        return cls(stream.read)

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self._at == len(self._buffer) and not self._more()

    def take(self, size: int) -> bytes:
        """Exactly that many bytes."""
        while len(self._buffer) - self._at < size:
            if not self._more():
                raise ReadError(f"{size} bytes should come, but the input ends after {len(self._buffer) - self._at}")
        return self._advance(self._at + size)

    def until(self, literal: bytes) -> bytes:
        """Everything before the literal, or before the end of the input; an empty literal stands for the end."""
        searched = self._at
        while True:
            found = self._buffer.find(literal, searched) if literal else -1
            if found >= 0:
                return self._advance(found)
            # The literal may have begun at the end of what is here; and `_more` may move everything.
            ahead = max(len(self._buffer) - self._at - max(len(literal) - 1, 0), 0)
            if not self._more():
                return self._advance(len(self._buffer))
            searched = self._at + ahead

    def take_while(self, allowed: frozenset[int]) -> bytes:
        """As many bytes as there are of these."""
        ahead = 0
        while True:
            if self._at + ahead == len(self._buffer) and not self._more():
                break
            if self._buffer[self._at + ahead] not in allowed:
                break
            ahead += 1
        return self._advance(self._at + ahead)

    def starts_with(self, literal: bytes) -> bool:
        """Whether the literal comes next."""
        while len(self._buffer) - self._at < len(literal):
            if not self._more():
                return False
        return self._buffer.startswith(literal, self._at)

    def skip(self, literal: bytes) -> bool:
        """Take the literal if it comes next."""
        found = self.starts_with(literal)
        if found:
            self._at += len(literal)
        return found

    def _advance(self, end: int) -> bytes:
        taken = bytes(self._buffer[self._at : end])
        self._at = end
        return taken

    def _more(self) -> bool:
        """Read on; what has been taken is dropped when it is most of the buffer."""
        if self._ended:
            return False
        if self._at > len(self._buffer) // 2:
            del self._buffer[: self._at]
            self._at = 0
        chunk = self._read(_CHUNK_BYTES)
        self._ended = not chunk
        self._buffer += chunk
        return not self._ended


class _Fields:
    """What has been read of one record, or of one header."""

    __slots__ = ("headers", "numbers", "texts", "timestamp_ms")

    def __init__(self) -> None:
        self.texts: dict[str, bytes | None] = {}
        self.numbers: dict[str, int] = {}
        self.headers: list[Header] = []
        self.timestamp_ms: int | None = None


_Step = Callable[[Source, _Fields], None]

_DIGITS = frozenset(b"0123456789")
_SIGNED_DIGITS = frozenset(b"-0123456789")


class RecordReader:
    """Reads records that look as a format says."""

    def __init__(self, text: str) -> None:
        pieces = parse_format(text)
        if not any(piece.verb in ("k", "v", "h") for piece in pieces):
            raise FormatError("a format for reading needs %v, %k or %h{...}")
        self._last = pieces[-1].literal
        body = pieces[:-1] if self._last else pieces
        self._steps = _compile(body, self._last, self._last, open_end=not self._last)

    def read_all(self, source: Source) -> Iterator[tuple[str | None, OutgoingRecord]]:
        """(topic if the format has it, record) for each record until the input ends."""
        number = 0
        while not source.at_end():
            number += 1
            fields = _Fields()
            try:
                for step in self._steps:
                    step(source, fields)
                # The last line of a file may lack its end.
                if not source.skip(self._last) and not source.at_end():
                    raise ReadError(f"{self._last!r} should come next")
            except ReadError as error:
                raise ReadError(f"record {number}: {error}") from None
            yield _record(fields)


def _record(fields: _Fields) -> tuple[str | None, OutgoingRecord]:
    topic = fields.texts.get("t")
    partition = fields.numbers.get("p")
    record = OutgoingRecord(
        fields.texts.get("k"),
        fields.texts.get("v"),
        tuple(fields.headers),
        None if partition == -1 else partition,
        fields.timestamp_ms,
    )
    return (None if topic is None else topic.decode("utf-8", "surrogateescape")), record


def _compile(pieces: tuple[Piece, ...], after: bytes, terminator: bytes, open_end: bool) -> list[_Step]:
    """A step for each piece. `after` follows the last piece, unless that may go on to the end of the input.

    A text that ends at a literal must not hold the terminator: a line that lacks the literal would swallow the next line.
    """
    steps: list[_Step] = []
    seen: set[str] = set()
    for number, piece in enumerate(pieces):
        is_last = number + 1 == len(pieces)
        following = after if is_last else pieces[number + 1].literal
        delimited = bool(following) or (is_last and open_end)
        if not piece.verb:
            steps.append(_literal_step(piece.literal))
        elif piece.verb == "h":
            steps.append(_headers_step(piece, following, "H" in seen))
        elif piece.verb == "d":
            _require_delimiter(piece, delimited, following, is_number=piece.modifier in ("", "ms", "s"))
            steps.append(_time_step(piece.modifier, following))
        elif piece.verb in _TEXTS:
            steps.append(_text_step(piece, following, delimited, terminator, seen))
        else:
            if not _FIXED.fullmatch(piece.modifier):
                _require_delimiter(piece, delimited, following, is_number=True)
            steps.append(_number_step(piece))
        seen.add(piece.verb)
    return steps


def _require_delimiter(piece: Piece, delimited: bool, following: bytes, *, is_number: bool = False) -> None:
    if not delimited:
        raise FormatError(f"%{piece.verb} is open-ended: put some text behind it, or its size before it")
    if is_number and following[:1] in b"-0123456789" and following:
        raise FormatError(f"%{piece.verb} is a number, so a digit behind it would be read as a part of it")


def _literal_step(literal: bytes) -> _Step:
    def step(source: Source, fields: _Fields) -> None:
        if not source.skip(literal):
            raise ReadError(f"{literal!r} should come next")

    return step


def _text_step(piece: Piece, following: bytes, delimited: bool, terminator: bytes, seen: set[str]) -> _Step:
    verb, modifier = piece.verb, piece.modifier
    if modifier == "json":
        return lambda source, fields: fields.texts.__setitem__(verb, _take_json(source))
    if modifier not in ("", "hex", "base64"):
        _require_delimiter(piece, delimited, following, is_number=True)
        return lambda source, fields: fields.texts.__setitem__(verb, _take_packed(source, modifier))
    if verb.upper() in seen:
        return lambda source, fields: fields.texts.__setitem__(verb, _take_sized(source, fields, verb, modifier))
    _require_delimiter(piece, delimited, following)

    def step(source: Source, fields: _Fields) -> None:
        text = source.until(following)
        if following != terminator and terminator and terminator in text:
            raise ReadError(f"{following!r} should come behind %{verb}, before {terminator!r}")
        fields.texts[verb] = _decode(text, modifier)

    return step


def _take_sized(source: Source, fields: _Fields, verb: str, modifier: str) -> bytes | None:
    size = fields.numbers[verb.upper()]
    if size < 0:
        return None
    encoded = {"": size, "hex": 2 * size, "base64": (size + 2) // 3 * 4}[modifier]
    return _decode(source.take(encoded), modifier)


def _decode(text: bytes, modifier: str) -> bytes:
    try:
        if modifier == "hex":
            return binascii.unhexlify(text)
        return base64.b64decode(text, validate=True) if modifier == "base64" else text
    except binascii.Error:
        raise ReadError(f"{text[:40]!r} is no {modifier}") from None


def _take_packed(source: Source, modifier: str) -> bytes | None:
    digits = source.take_while(_SIGNED_DIGITS)
    if not digits:
        return None
    order, size = _order_and_size(modifier)
    try:
        return int(digits).to_bytes(size, order, signed=True)
    except (ValueError, OverflowError):
        raise ReadError(f"{digits.decode()} is no number of {size} bytes") from None


def _take_json(source: Source) -> bytes | None:
    """A JSON string up to its closing quote, or null."""
    if source.skip(b"null"):
        return None
    text = bytearray()
    if not source.skip(b'"'):
        raise ReadError("a JSON string or null should come next")
    while True:
        text += source.until(b'"')
        if not source.skip(b'"'):
            raise ReadError("a JSON string without its closing quote")
        backslashes = len(text) - len(text.rstrip(b"\\"))
        if backslashes % 2 == 0:
            break
        text += b'"'
    try:
        return str(json.loads(b'"' + text + b'"')).encode("utf-8", "surrogateescape")
    except ValueError as error:
        raise ReadError(f"a JSON string that is none: {error}") from None


def _number_step(piece: Piece) -> _Step:
    verb, modifier = piece.verb, piece.modifier
    fixed = _FIXED.fullmatch(modifier)

    def step(source: Source, fields: _Fields) -> None:
        fields.numbers[verb] = _take_fixed(source, fixed[1], int(fixed[2]) // 8) if fixed else _take_ascii(source)
        if verb in _SIZES and fields.numbers[verb] < -1:
            raise ReadError(f"a size of {fields.numbers[verb]}")

    return step


def _take_ascii(source: Source) -> int:
    digits = source.take_while(_SIGNED_DIGITS)
    try:
        return int(digits)
    except ValueError:
        raise ReadError(f"a number should come next, not {digits!r}") from None


def _take_fixed(source: Source, form: str, size: int) -> int:
    data = _decode(source.take(2 * size), "hex") if form == "hex" else source.take(size)
    return int.from_bytes(data, "little" if form == "little" else "big", signed=True)


def _time_step(modifier: str, following: bytes) -> _Step:
    def step(source: Source, fields: _Fields) -> None:
        if modifier in ("", "ms", "s"):
            number = _take_ascii(source)
            fields.timestamp_ms = number * 1000 if modifier == "s" else number
            return
        from datetime import UTC, datetime

        text = source.until(following).decode("utf-8", "replace")
        try:
            moment = datetime.fromisoformat(text) if modifier == "iso" else datetime.strptime(text, modifier)
        except ValueError:
            raise ReadError(f"{text!r} is no time of the form %d{{{modifier}}}") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        fields.timestamp_ms = round(moment.timestamp() * 1000)

    return step


def _headers_step(piece: Piece, following: bytes, counted: bool) -> _Step:
    if not counted and not following:
        raise FormatError("%h is open-ended: put some text behind it, or %H before it")
    # What ends a header's value is its own delimiter; what ends the headers is recognized where a header would begin.
    steps = _compile(piece.inner, b"", b"", open_end=False)
    if not any(inner.verb == "k" for inner in piece.inner):
        raise FormatError("a format of headers needs %k")

    def one(source: Source, fields: _Fields) -> None:
        header = _Fields()
        for step in steps:
            step(source, header)
        key = header.texts["k"] or b""
        fields.headers.append((key.decode("utf-8", "surrogateescape"), header.texts.get("v")))

    def all_of_them(source: Source, fields: _Fields) -> None:
        if counted:
            for _ in range(fields.numbers["H"]):
                one(source, fields)
            return
        while not source.starts_with(following) and not source.at_end():
            one(source, fields)

    return all_of_them
