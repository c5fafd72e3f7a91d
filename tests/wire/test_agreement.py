"""Generated codecs and construct, held against each other for every declaration and version."""

from __future__ import annotations

import random
from typing import Any

import construct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.errors import ProtocolError
from kafkapy.wire.schema import Message
from tests.wire.catalog import declared_classes
from tests.wire.random_values import mutate, random_message

CLASSES = sorted(declared_classes(), key=lambda cls: cls.__name__)


def versions_of(cls: type[Message]) -> range:
    """All versions of a message."""
    return range(cls.SCHEMA.versions.first, cls.SCHEMA.versions.last + 1)


def same(one: Any, other: Any) -> bool:
    """Equal, also where there are NaNs."""
    return one == other or repr(one) == repr(other)


def check_value(cls: type[Message], version: int, message: Any) -> bytes:
    """Both ways of writing give the same bytes, both ways of reading give the object back."""
    raw: bytes = message.encode(version)
    assert cls.construct(version).build(message) == raw
    assert cls.decoder(version)(raw, 0, len(raw)) == (message, len(raw))
    assert cls.construct(version).parse(raw) == message
    assert cls.from_json(message.to_json(version), version) == message
    return raw


def check_bytes(cls: type[Message], version: int, raw: bytes) -> None:
    """Both ways of reading come to the same verdict about bytes that may be wrong."""
    try:
        expected = cls.construct(version).parse(raw)
    except construct.ConstructError:
        expected = None
    try:
        message, end = cls.decoder(version)(memoryview(raw), 0, len(raw))
    except ProtocolError:
        assert expected is None, raw.hex()
        return
    assert end <= len(raw)
    assert same(message, expected), raw.hex()
    again: bytes = message.encode(version)
    assert same(cls.decode(again, version), message)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_values_and_damaged_bytes(cls: type[Message]) -> None:
    """Random objects survive the way there and back; of damaged bytes both readers think the same."""
    for version in versions_of(cls):
        rng = random.Random(f"{cls.__name__} {version}")
        raw = check_value(cls, version, random_message(cls, version, rng))
        for _ in range(3):
            check_bytes(cls, version, mutate(raw, rng))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_cut_short(cls: type[Message]) -> None:
    """A message that ends early is refused, whether the buffer ends there or goes on with other bytes."""
    for version in versions_of(cls):
        rng = random.Random(f"{cls.__name__} {version} cut")
        raw = random_message(cls, version, rng).encode(version)
        decoder = cls.decoder(version)
        ends = range(len(raw)) if len(raw) < 8 else sorted(rng.sample(range(len(raw)), 8))
        for end in ends:
            for buffer in (raw[:end], raw, raw[:end] + b"\x01" * 300, raw[:end] + b"\xff" * 300):
                with pytest.raises(ProtocolError):
                    decoder(buffer, 0, end)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_agreement_with_shrinking(data: st.DataObject) -> None:
    """The same as above, driven by hypothesis, which makes a failure small."""
    cls = data.draw(st.sampled_from(CLASSES))
    version = data.draw(st.sampled_from(versions_of(cls)))
    rng = data.draw(st.randoms(use_true_random=False))
    raw = check_value(cls, version, random_message(cls, version, rng))
    check_bytes(cls, version, mutate(raw, rng))


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(cls=st.sampled_from(CLASSES), raw=st.binary(max_size=60), chosen=st.integers(min_value=0, max_value=100))
def test_any_bytes(cls: type[Message], raw: bytes, chosen: int) -> None:
    """Bytes that never were a message."""
    versions = versions_of(cls)
    check_bytes(cls, versions[chosen % len(versions)], raw)
