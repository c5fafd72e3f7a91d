"""The declarations against the table of facts: fields, order, ranges, nullability, defaults, tags."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kafkapy.types import ZERO_UUID
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.check import struct_class
from kafkapy.wire.schema import Field, Struct, Versions
from tests.wire.catalog import HAS_FACTS, facts

pytestmark = pytest.mark.skipif(not HAS_FACTS, reason="the table of facts is not here")

MESSAGES = facts("messages.json") if HAS_FACTS else {"apis": [], "headers": [], "data": []}
RECORDS = facts("records.json") if HAS_FACTS else {}
KINDS = {"bool": "boolean"}
SCALARS = {
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "float64",
    "string",
    "bytes",
    "records",
    "uuid",
}


OWN_TAGS_MIN = 10_000


def cut(versions: Versions, within: tuple[int, int]) -> list[int] | None:
    """The range inside the message's (or the field's) own, as the table gives it."""
    first, last = max(versions.first, within[0]), min(versions.last, within[1])
    return [first, last] if first <= last else None


def expected_default(fact: dict[str, Any]) -> Any:
    """The value of a field that nobody sets."""
    kind = fact["type"]
    if "default" in fact:
        if kind == "bytes" and fact["default"] is not None:
            return base64.b64decode(fact["default"])
        return fact["default"]
    if kind.startswith("[]"):
        return []
    return {"bool": False, "string": "", "bytes": b"", "records": None, "uuid": ZERO_UUID}.get(kind, 0)


def differences(
    fields: tuple[Field, ...], wanted: list[dict[str, Any]], within: tuple[int, int], path: str
) -> list[str]:
    """What is different, one line each; empty when the declaration says what the table says."""
    found = []
    # Fields of our own have tags that Apache Kafka will never use, and are skipped by whoever doesn't know them.
    fields = [field for field in fields if field.tag is None or field.tag < OWN_TAGS_MIN]
    if [field.json_name for field in fields] != [fact["name"] for fact in wanted]:
        return [f"{path}: declared {[field.json_name for field in fields]}, wanted {[fact['name'] for fact in wanted]}"]
    for field, fact in zip(fields, wanted, strict=True):
        here = f"{path}.{fact['name']}"
        type_ = fact["type"].removeprefix("[]")
        kind = KINDS.get(type_, type_) if type_ in SCALARS else "struct"
        inner = field.element if field.kind == "array" else field
        declared = {
            "type": ("[]" if field.kind == "array" else "") + (inner.kind if inner else "?"),
            "versions": cut(field.versions, within),
            "nullable": cut(field.nullable, tuple(fact["versions"])),
            "tag": field.tag,
            "tagged": cut(field.tagged, tuple(fact["versions"])),
            "ignorable": field.ignorable,
            "flexible": field.flexible,
        }
        facts_ = {
            "type": ("[]" if fact["type"].startswith("[]") else "") + kind,
            "versions": fact["versions"],
            "nullable": fact.get("nullable"),
            "tag": fact.get("tag"),
            "tagged": fact.get("tagged"),
            "ignorable": fact.get("ignorable", False),
            "flexible": "flexible" not in fact,
        }
        found += [
            f"{here}: {name} is {declared[name]}, wanted {facts_[name]}"
            for name in facts_
            if declared[name] != facts_[name]
        ]
        if kind == "struct" and field.kind == "struct":
            nullable_default = "default" in fact and fact["default"] is None
            if (field.default is None) != nullable_default:
                found.append(f"{here}: default is {field.default!r}, wanted {fact.get('default', 'a structure')!r}")
        elif field.default != expected_default(fact):
            found.append(f"{here}: default is {field.default!r}, wanted {expected_default(fact)!r}")
        if field.struct is not None:
            found += differences(field.struct.SCHEMA.fields, fact["fields"], tuple(fact["versions"]), here)
    return found


def compare(cls: type[Struct], fact: dict[str, Any]) -> None:
    """Assert that a declared message is what the table says."""
    schema = cls.SCHEMA
    assert schema.name == fact["name"]
    assert [schema.versions.first, schema.versions.last] == fact["versions"]
    within = tuple(fact["versions"])
    assert cut(schema.flexible, within) == fact["flexible"], "flexible versions"
    found = differences(schema.fields, fact["fields"], within, schema.name)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("fact", MESSAGES["apis"], ids=lambda fact: fact["name"])
def test_api(fact: dict[str, Any]) -> None:
    """Requests and responses are declared as Kafka 4.3 has them."""
    api = API_BY_KEY[fact["key"]]
    for kind, cls in (("request", api.request), ("response", api.response)):
        assert cls.SCHEMA.key == fact["key"]
        assert cls.SCHEMA.kind == kind
        compare(cls, fact[kind])


def struct_facts() -> list[Any]:
    """(set, record type, fact) of everything that is no API."""
    found = [("header", -1, fact) for fact in MESSAGES["headers"]] + [("data", -1, fact) for fact in MESSAGES["data"]]
    for set_ in ("group", "transaction", "share"):
        for record in RECORDS.get(set_, []):
            found += [(set_, record["type"], record[part]) for part in ("key", "value") if record.get(part)]
    found += [("metadata", fact["type"], fact) for fact in RECORDS.get("metadata", [])]
    return [pytest.param(*case, id=f"{case[0]}-{case[2]['name']}") for case in found]


@pytest.mark.parametrize(("set_", "type_", "fact"), struct_facts())
def test_structure(set_: str, type_: int, fact: dict[str, Any]) -> None:
    """Headers, records and structures inside bytes fields are declared as Kafka 4.3 has them."""
    cls = struct_class(set_, fact["name"])
    assert cls.SCHEMA.type == type_
    compare(cls, fact)


def test_every_api_is_in_the_table() -> None:
    """Keys, names, ranges, header versions and listeners of apis.py are Kafka's."""
    assert [api.key for api in API_BY_KEY.values()] == [fact["key"] for fact in MESSAGES["apis"]]
    for fact in MESSAGES["apis"]:
        api = API_BY_KEY[fact["key"]]
        assert api.name == fact["name"]
        assert api.versions == Versions(*fact["request"]["versions"])
        assert api.listeners == set(fact["listeners"])
        assert [api.advertised.first, api.advertised.last] == next(iter(fact["advertised"].values()))
        for header, version_of in (
            ("requestHeader", api.request_header_version),
            ("responseHeader", api.response_header_version),
        ):
            for first, last, version in fact[header]:
                assert {version_of(first), version_of(last)} == {version}
