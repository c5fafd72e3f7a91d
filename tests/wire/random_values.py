"""Random objects of any declared message, and bytes that are nearly right."""

from __future__ import annotations

import math
import random
from typing import Any

from kafkapy.wire.schema import Field, Message, Struct

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
WORDS = ("", "a", "topic-1", "münchen", "ключ", "日本語", "😀", "x" * 126, "x" * 127, "y" * 300)
# What hurts most in the place of a length, a count or a mark.
NASTY = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x00",
    b"\x00",
    b"\x01",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff",
)


def random_struct(cls: type[Struct], version: int, rng: random.Random, depth: int = 0) -> Any:
    """An object with everything that the version carries."""
    obj = cls()
    for field in cls.SCHEMA.fields:
        if version in field.versions and not (field.is_tagged(version) and rng.random() < 0.3):
            setattr(obj, field.name, random_value(field, version, rng, depth))
    return obj


def random_message(cls: type[Message], version: int, rng: random.Random) -> Any:
    """A random object of a message."""
    return random_struct(cls, version, rng)


def random_value(field: Field, version: int, rng: random.Random, depth: int) -> Any:
    """A value of one field: often one at the edge of what it can hold."""
    if version in field.nullable and rng.random() < 0.25:
        return None
    kind = field.kind
    if kind in BITS:
        bits = BITS[kind]
        edge = rng.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))
        return edge if rng.random() < 0.4 else rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))
    if kind in ("uint16", "uint32"):
        return rng.choice((0, 1, 2 ** int(kind[4:]) - 1, rng.randrange(2 ** int(kind[4:]))))
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice((0.0, -1.5, math.inf, rng.uniform(-1e9, 1e9)))
    if kind == "string":
        return rng.choice(WORDS)
    if kind in ("bytes", "records"):
        return bytes(rng.randrange(256) for _ in range(rng.choice((0, 1, 5, 126, 127, 200))))
    if kind == "uuid":
        return bytes(rng.randrange(256) for _ in range(16))
    if kind == "struct":
        assert field.struct is not None
        return random_struct(field.struct, version, rng, depth + 1)
    assert field.element is not None
    count = rng.choice((0, 1, 2, 3, 9) if depth < 2 else (0, 1, 2))
    if field.element.kind != "struct" and rng.random() < 0.05:
        count = 130
    return [random_value(field.element, version, rng, depth + 1) for _ in range(count)]


def mutate(raw: bytes, rng: random.Random) -> bytes:
    """The same bytes with a few things wrong."""
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        action = rng.randrange(5)
        if action == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif action == 1:
            nasty = rng.choice(NASTY)
            changed[at : at + len(nasty)] = nasty
        elif action == 2:
            del changed[at : at + rng.choice((1, 2, 4))]
        elif action == 3:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 4))))
        else:
            del changed[at:]
    return bytes(changed)
