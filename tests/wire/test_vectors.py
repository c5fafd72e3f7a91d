"""Every byte vector through the compiled codecs, the construct form and the JSON form."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.check import struct_class
from kafkapy.wire.schema import Message
from tests.wire.catalog import HAS_FACTS, vectors

pytestmark = pytest.mark.skipif(not HAS_FACTS, reason="the vectors are not here")


def groups(name: str, *by: str) -> list[Any]:
    """The vectors of one file in groups, one test each."""

    def key_of(vector: dict[str, Any]) -> tuple[str, ...]:
        return tuple(vector[part] for part in by)

    grouped = itertools.groupby(sorted(vectors(name), key=key_of), key_of)
    return [pytest.param(list(group), id="-".join(key)) for key, group in grouped]


def check_vector(cls: type[Message], vector: dict[str, Any]) -> None:
    """Read, write and print one vector in every way there is."""
    version, raw, value = vector["version"], bytes.fromhex(vector["hex"]), vector["json"]
    where = f"version {version}, {vector['variant']}"
    message, pos = cls.decoder(version)(raw, 0, len(raw))
    assert pos == len(raw), where
    assert message.to_json(version) == value, where
    assert cls.from_json(value, version) == message, where
    construct = cls.construct(version)
    assert construct.parse(raw) == message, where
    if vector["variant"] != "unknown-tags":
        assert message.encode(version) == raw, where
        assert construct.build(message) == raw, where
    for buffer in (bytearray(b"\x7f" + raw + b"\x01"), memoryview(b"\x7f" + raw + b"\x01")):
        assert cls.decoder(version)(buffer, 1, len(raw) + 1) == (message, len(raw) + 1), where


@pytest.mark.parametrize("group", groups("vectors.jsonl.gz", "api", "kind"))
def test_api_vectors(group: list[dict[str, Any]]) -> None:
    """Requests and responses of every API."""
    for vector in group:
        api = API_BY_KEY[vector["key"]]
        check_vector(api.request if vector["kind"] == "request" else api.response, vector)


@pytest.mark.parametrize("group", groups("struct_vectors.jsonl.gz", "set", "name"))
def test_struct_vectors(group: list[dict[str, Any]]) -> None:
    """Headers, data structures and records."""
    for vector in group:
        check_vector(struct_class(vector["set"], vector["name"]), vector)
