"""Turns a declaration and a version into straight-line Python that reads or writes exactly that.

A decoder that interprets its schema spends its time in asking what comes next. The generated source has asked once:
- neighbouring fields of fixed size, the first byte of the length that follows them included, are one precompiled Struct;
- lengths and counts below 128, which are nearly all, need no call, and nested structures are written into their loops;
- what a version lacks is an assignment of the default when reading, and one comparison when writing.

`decoder_source` and `encoder_source` show what is generated; compile_decode.py and compile_encode.py generate it.
"""

from __future__ import annotations

from typing import Any

from kafkapy.wire.compile_decode import DecodeSource
from kafkapy.wire.compile_encode import EncodeSource
from kafkapy.wire.schema import Decoder, Encoder, Message


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """The function (buf, pos, end) -> (object, position after it)."""
    source = DecodeSource(cls, version)
    decoder: Decoder = _compile(source.text(), source.scope, f"<decoder of {cls.__name__} {version}>")["decode"]
    return decoder


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """The function (object, out, splits) -> None."""
    source = EncodeSource(cls, version)
    encoder: Encoder = _compile(source.text(), source.scope, f"<encoder of {cls.__name__} {version}>")["encode"]
    return encoder


def decoder_source(cls: type[Message], version: int) -> str:
    """What `compile_decoder` compiles, for a reader."""
    return DecodeSource(cls, version).text()


def encoder_source(cls: type[Message], version: int) -> str:
    """What `compile_encoder` compiles, for a reader."""
    return EncodeSource(cls, version).text()


def _compile(text: str, scope: dict[str, Any], name: str) -> dict[str, Any]:
    exec(compile(text, name, "exec"), scope)
    return scope
