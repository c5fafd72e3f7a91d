"""The stored forms of records and blobs: Kafka's own bytes, round trips, and bytes that make no sense."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.errors import ProtocolError
from kafkapy.wire import group_records, metadata_records, protocol_data
from kafkapy.wire.check import struct_class
from kafkapy.wire.metadata_records import record_version
from kafkapy.wire.record_framing import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecords,
    UnknownRecordType,
    decode_blob,
    decode_metadata_record,
    encode_blob,
    encode_key,
    encode_metadata_record,
    encode_value,
    metadata_record_class,
)
from kafkapy.wire.schema import Data, Record
from tests.wire.catalog import HAS_FACTS, facts, vectors

REGISTRIES = {"group": GROUP_RECORDS, "transaction": TRANSACTION_RECORDS, "share": SHARE_RECORDS}
needs_facts = pytest.mark.skipif(not HAS_FACTS, reason="the vectors are not here")


def framed_vectors(*sets: str) -> list[Any]:
    """The vectors of these sets that have a stored form."""
    return [v for v in vectors("struct_vectors.jsonl.gz") if v["set"] in sets and "framed" in v]


@needs_facts
def test_metadata_vectors() -> None:
    """Metadata records are read from, and written as, the bytes that Kafka stores."""
    cases = framed_vectors("metadata")
    assert len(cases) > 60
    for vector in cases:
        framed = bytes.fromhex(vector["framed"])
        record, version = decode_metadata_record(framed)
        assert (record.SCHEMA.name, version) == (vector["name"], vector["version"])
        assert record.to_json(version) == vector["json"]
        if vector["variant"] != "unknown-tags":
            assert encode_metadata_record(record, version) == framed
        assert decode_metadata_record(memoryview(framed)) == (record, version)


@needs_facts
def test_coordinator_vectors() -> None:
    """Keys and values of coordinator records are read from, and written as, the bytes that Kafka stores."""
    cases = framed_vectors("group", "transaction", "share")
    assert len(cases) > 100
    for vector in cases:
        framed = bytes.fromhex(vector["framed"])
        registry = REGISTRIES[vector["set"]]
        if vector["name"].endswith("Key"):
            record, version = registry.decode_key(framed), 0
            written = encode_key(record)
        else:
            record, version = registry.decode_value(vector["type"], memoryview(framed))
            written = encode_value(record, version)
        assert (record.SCHEMA.name, version) == (vector["name"], vector["version"])
        assert record.to_json(version) == vector["json"]
        if vector["variant"] != "unknown-tags":
            assert written == framed


@needs_facts
def test_blob_vectors() -> None:
    """Blobs behind an int16 version are read from, and written as, Kafka's bytes."""
    cases = framed_vectors("data")
    assert len(cases) > 10
    for vector in cases:
        framed = bytes.fromhex(vector["framed"])
        data = decode_blob(struct_class("data", vector["name"]), framed)
        assert data.to_json(vector["version"]) == vector["json"]
        if vector["variant"] != "unknown-tags":
            assert encode_blob(data, vector["version"]) == framed


@needs_facts
def test_every_type_is_registered() -> None:
    """Each record type of Kafka's tables leads to its own classes, and there are no others."""
    table = facts("records.json")
    for set_, registry in REGISTRIES.items():
        assert registry.types == sorted(fact["type"] for fact in table[set_])
        for fact in table[set_]:
            names = tuple(cls.__name__ for cls in registry.classes(fact["type"]))
            assert names == (fact["key"]["name"], fact["value"]["name"])
    for fact in table["metadata"]:
        assert metadata_record_class(fact["type"]).__name__ == fact["name"]


def test_a_stored_record_is_read_whole() -> None:
    """Key and value come together; a missing value says that the key's subject is gone."""
    key = group_records.OffsetCommitKey(group="g", topic="t", partition=3)
    value = group_records.OffsetCommitValue(offset=42, leader_epoch=7, metadata="note", commit_timestamp=1000)
    assert GROUP_RECORDS.decode(encode_key(key), encode_value(value, 3)) == (key, value)
    assert GROUP_RECORDS.decode(encode_key(key), None) == (key, None)


def test_layout_of_a_metadata_record() -> None:
    """Three varints stand before the body: frame version, type, version."""
    record = metadata_records.FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_metadata_record(record, 0) == b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00"


@pytest.mark.parametrize(
    "framed",
    [
        b"",
        b"\x01",
        b"\x01\x14",
        b"\x01\x14\x00",  # No tag section.
        b"\x00\x14\x00\x00",  # Frame version 0.
        b"\x02\x14\x00\x00",
        b"\x01\x06\x00\x00",  # No such type.
        b"\x01\x14\x01\x00",  # No such version.
        b"\x01\x14\x00\x00\x00",  # A byte too many.
        b"\x01\xff\xff\xff\xff\xff\x00",  # A varint without end.
        b"\x01\x80\x80\x80\x80\x08\x00",  # A type beyond int16.
        b"\x01\x02\x00\x7f",  # A string that is longer than what follows.
    ],
)
def test_bad_metadata_records(framed: bytes) -> None:
    """A frame that makes no sense raises ProtocolError."""
    with pytest.raises(ProtocolError):
        decode_metadata_record(framed)


@pytest.mark.parametrize("registry", REGISTRIES.values(), ids=REGISTRIES)
@pytest.mark.parametrize("framed", [b"", b"\x00", b"\x00\x00", b"\xff\xff", b"\x00\x00\x7f\xff", b"\x7f\xff\x00"])
def test_bad_keys_and_values(registry: CoordinatorRecords, framed: bytes) -> None:
    """Keys and values that are cut short or of no known version raise ProtocolError."""
    with pytest.raises(ProtocolError):
        registry.decode_key(framed)
    with pytest.raises(ProtocolError):
        registry.decode_value(0, framed)


def test_unknown_types_can_be_told_apart() -> None:
    """A coordinator may skip what a newer broker wrote, so an unknown type has an exception of its own."""
    with pytest.raises(UnknownRecordType) as unknown:
        GROUP_RECORDS.decode(b"\x03\xe7", b"\x00\x00")
    assert unknown.value.type == 999
    with pytest.raises(UnknownRecordType):
        decode_metadata_record(b"\x01\x06\x00\x00")


def test_newer_consumer_protocol() -> None:
    """A version from the future is read as the latest known one where the caller allows that, and refused elsewhere."""
    subscription = protocol_data.ConsumerProtocolSubscription(topics=["a"], generation_id=5, rack_id="r")
    blob = struct.pack(">h", 9) + subscription.encode(3) + b"more"
    assert decode_blob(protocol_data.ConsumerProtocolSubscription, blob, newer_as_latest=True) == subscription
    with pytest.raises(ProtocolError):
        decode_blob(protocol_data.ConsumerProtocolSubscription, blob)
    with pytest.raises(ProtocolError):
        decode_blob(protocol_data.ConsumerProtocolSubscription, b"\xff\xff" + blob[2:], newer_as_latest=True)


@settings(derandomize=True)
@given(st.binary(max_size=80))
def test_hostile_bytes(framed: bytes) -> None:
    """Whatever the bytes are, they are read or ProtocolError is raised."""
    attempts = [lambda: decode_metadata_record(b"\x01" + framed)]
    for registry in REGISTRIES.values():
        attempts.append(lambda registry=registry: registry.decode_key(framed))
        attempts += [lambda r=registry, t=t: r.decode_value(t, framed) for t in registry.types]
    for cls in (protocol_data.ConsumerProtocolSubscription, protocol_data.ConsumerProtocolAssignment):
        attempts.append(lambda cls=cls: decode_blob(cls, framed, newer_as_latest=True))
    for attempt in attempts:
        try:
            result = attempt()
        except ProtocolError:
            continue
        assert isinstance(result, (Record, Data, tuple))


@pytest.mark.parametrize(
    ("cls", "metadata_version", "version"),
    [
        (metadata_records.TopicRecord, 30, 0),
        (metadata_records.PartitionRecord, 7, 0),
        (metadata_records.PartitionRecord, 16, 0),
        (metadata_records.PartitionRecord, 17, 1),
        (metadata_records.PartitionRecord, 23, 2),
        (metadata_records.PartitionChangeRecord, 22, 1),
        (metadata_records.PartitionChangeRecord, 30, 2),
        (metadata_records.RegisterBrokerRecord, 7, 1),
        (metadata_records.RegisterBrokerRecord, 8, 2),
        (metadata_records.RegisterBrokerRecord, 29, 3),
        (metadata_records.RegisterBrokerRecord, 30, 4),
        (metadata_records.BrokerRegistrationChangeRecord, 29, 2),
        (metadata_records.BrokerRegistrationChangeRecord, 30, 3),
    ],
)
def test_version_for_a_metadata_version(cls: type[Record], metadata_version: int, version: int) -> None:
    """Records are written in the version that Kafka chooses at a metadata.version."""
    assert record_version(cls, metadata_version) == version


@needs_facts
def test_latest_metadata_version_writes_the_latest_records() -> None:
    """With Kafka 4.3's own metadata.version every record is written in its newest version."""
    features = {f["name"]: f for f in facts("configs.json")["features"]}
    assert features["metadata.version"]["latestProduction"] == metadata_records.METADATA_VERSION_LATEST
    assert features["metadata.version"]["min"] == metadata_records.METADATA_VERSION_MIN
    for fact in facts("records.json")["metadata"]:
        assert record_version(metadata_record_class(fact["type"])) == fact["versions"][1]
