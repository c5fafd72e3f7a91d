"""Java's .properties format, in which Kafka's server.properties is written.

A line is a key, a separator (`=`, `:` or blanks) and a value. A line that ends with an odd number of backslashes goes on in
the next one, whose leading blanks do not count. `#` and `!` open a comment. `\\t`, `\\n`, `\\r`, `\\f` and `\\uXXXX` are escapes;
a backslash before anything else only protects it, so that a key may contain a separator.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkapy.config.validators import ConfigException

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A value and the line, counted from 1, on which its key begins."""

    value: str
    line: int


def parse_properties(text: str) -> dict[str, Property]:
    """All properties of a file's text; of a key that appears twice the last counts. Raises ConfigException."""
    properties: dict[str, Property] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key, number)] = Property(_unescape(value, number), number)
    return properties


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """The lines that hold a property, continuation lines joined, each with the number of its first line."""
    lines: list[tuple[int, str]] = []
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        parts.append(line[:-1] if backslashes % 2 else line)
        if backslashes % 2 == 0:
            lines.append((first, "".join(parts)))
            parts = []
    if parts:
        lines.append((first, "".join(parts)))
    return lines


def _split(line: str) -> tuple[str, str]:
    """The key up to the first separator that no backslash protects, and what follows the separator."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(_BLANKS)
    return key, rest[1:].lstrip(_BLANKS) if rest[:1] in ("=", ":") else rest


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ConfigException(f"line {line}: \\u{digits} is not four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Characters beyond 16 bits are written as two escapes, as Java's strings hold them.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
