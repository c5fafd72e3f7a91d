"""Declarations: versions, defaults, constructors, equality, and what a declaration must not say."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest

from kafkapy.errors import ProtocolError
from kafkapy.types import ZERO_UUID
from kafkapy.wire.apis import API_BY_KEY, api_by_name, snake_case
from kafkapy.wire.schema import (
    Data,
    EncodeError,
    Request,
    Struct,
    Versions,
    array,
    boolean,
    bytes_,
    float64,
    int32,
    records,
    string,
    struct,
    uuid,
)


class Leader(Struct):
    """A nested structure with defaults of its own."""

    leader_id: int = int32(default=-1)
    epoch: int = int32("2+", default=-1)


class Sample(Request, key=99, versions="1-4", flexible="3+"):
    """One field of most kinds."""

    name: str = string()
    rack: str | None = string(nullable="1+", default=None)
    id: bytes = uuid()
    ratio: float = float64()
    blob: bytes = bytes_()
    log: memoryview | None = records()
    leader: Leader = struct(Leader)
    other: Leader | None = struct(Leader, nullable="1+", default=None)
    leaders: list[Leader] = array(Leader)
    numbers: list[int] | None = array(int32, nullable="1+", default=None)
    is_new: bool = boolean(json="brandNew")


def test_versions_are_parsed() -> None:
    """Open, closed and single ranges; None is a range that nothing is in."""
    assert 3 in Versions.parse("3+")
    assert 2 not in Versions.parse("3+")
    assert Versions.parse("0-12") == Versions(0, 12)
    assert Versions.parse("5") == Versions(5, 5)
    assert 0 not in Versions.parse(None)
    assert [repr(Versions.parse(text)) for text in ("3+", "0-12", "5", None)] == ["3+", "0-12", "5-5", "never"]
    assert len({Versions(0, 1), Versions(0, 1), Versions(0, 2)}) == 2


def test_every_field_has_a_default() -> None:
    """An object can be made of nothing, and lists and structures are its own."""
    sample, another = Sample(), Sample()
    assert (sample.name, sample.rack, sample.id, sample.ratio) == ("", None, ZERO_UUID, 0.0)
    assert (sample.blob, sample.log, sample.leader, sample.other) == (b"", None, Leader(), None)
    assert (sample.leaders, sample.numbers, sample.is_new) == ([], None, False)
    sample.leaders.append(Leader())
    sample.leader.leader_id = 5
    assert another.leaders == []
    assert another.leader.leader_id == -1


def test_constructors_take_fields_by_name_only() -> None:
    """What is given is set; a name that is no field is our mistake."""
    assert Leader(leader_id=4).leader_id == 4
    with pytest.raises(TypeError):
        Leader(nonsense=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Leader(4)  # type: ignore[misc]


def test_objects_are_slotted() -> None:
    """A name that is no field cannot be set by mistake."""
    with pytest.raises(AttributeError):
        Sample().nonsense = 1  # type: ignore[attr-defined]


def test_equality_is_by_fields() -> None:
    """Objects of one class are equal when all fields are; they cannot be keys because they can change."""
    assert Leader(leader_id=1) == Leader(leader_id=1)
    assert Leader(leader_id=1) != Leader(leader_id=2)
    assert Leader() != Sample()
    assert copy.deepcopy(Sample(leaders=[Leader()])) == Sample(leaders=[Leader()])
    with pytest.raises(TypeError):
        hash(Leader())


def test_repr_names_fields_but_hides_records() -> None:
    """For logs: every field, but never megabytes."""
    text = repr(Sample(name="x", log=memoryview(b"abc")))
    assert text.startswith("Sample(name='x', rack=None")
    assert "log=<3 bytes>" in text


def test_json_names_are_camel_case() -> None:
    """Derived from the attribute unless one is given."""
    names = {field.name: field.json_name for field in Sample.SCHEMA.fields}
    assert names["leaders"] == "leaders"
    assert names["is_new"] == "brandNew"
    assert Leader.SCHEMA.by_name["leader_id"].json_name == "leaderId"


def test_what_a_class_declares_can_be_asked() -> None:
    """Code that works on declarations finds everything under SCHEMA."""
    schema = Sample.SCHEMA
    assert (schema.name, schema.kind, schema.key, schema.versions) == ("Sample", "request", 99, Versions(1, 4))
    assert 3 in schema.flexible
    assert Leader.SCHEMA.kind == "struct"


def test_versions_that_do_not_exist() -> None:
    """A peer's wrong version is a ProtocolError, ours an EncodeError."""
    with pytest.raises(ProtocolError, match="Sample has no version 5"):
        Sample.decode(b"", 5)
    with pytest.raises(EncodeError, match="Sample has no version 0"):
        Sample().encode(0)
    with pytest.raises(EncodeError):
        Sample.construct(0)


def test_a_field_must_not_hide_a_method() -> None:
    """Messages are decoded by name of method: a field of that name would be found instead."""
    with pytest.raises(TypeError, match="would hide"):

        class Wrong(Data, versions="0"):
            encode: int = int32()


def test_tag_needs_versions() -> None:
    """A tag without versions, or versions without a tag, is half a declaration."""
    with pytest.raises(TypeError):
        int32(tag=0)
    with pytest.raises(TypeError):
        int32(tagged="1+")


def test_apis_are_found_by_name_and_key() -> None:
    """Whatever case, with underscores, or the key in digits."""
    assert api_by_name("describeacls") is api_by_name("describe_acls") is api_by_name("29") is API_BY_KEY[29]
    with pytest.raises(KeyError):
        api_by_name("Nonsense")
    assert snake_case("DescribeUserScramCredentials") == "describe_user_scram_credentials"
    assert API_BY_KEY[0].request.SCHEMA.name == "ProduceRequest"
    assert "Produce" in repr(API_BY_KEY[0])


@pytest.mark.slow
def test_what_a_broker_imports_is_little() -> None:
    """Neither construct nor messages that nobody asked for are imported; that is time at every start."""
    code = """
import sys
from kafkapy.wire.apis import API_BY_KEY
API_BY_KEY[18].response.encoder(0)(API_BY_KEY[18].response(), bytearray(), [])
API_BY_KEY[18].request.decode(b"", 0)
print([name for name in sys.modules if name.startswith("construct") or name.startswith("kafkapy.wire.messages.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['kafkapy.wire.messages.api_versions']"
