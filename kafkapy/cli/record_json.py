"""A record as one line of JSON, both ways: what `consume --format json` prints, `produce --format json` reads without loss.

    {"topic": "orders", "partition": 0, "offset": 5, "timestamp": 1767225600000, "timestamp_type": "create",
     "key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}]}

A key or value that is no UTF-8 text stands in base64 under `key_base64` or `value_base64` instead; null is null. Everything may
be left out of what is produced; offset and timestamp_type are for reading only.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from kafkapy.client.fetcher import FetchedRecord
from kafkapy.client.producer import OutgoingRecord
from kafkapy.wire.records import Header

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "One record; a line each",
    "type": "object",
    "properties": {
        "topic": {"type": "string", "description": "the record's topic"},
        "partition": {"type": "integer", "description": "its partition"},
        "offset": {"type": "integer", "description": "its place in the partition; not for producing"},
        "timestamp": {"type": "integer", "description": "milliseconds since 1970"},
        "timestamp_type": {"enum": ["create", "append"], "description": "whose clock: the producer's or the broker's"},
        "leader_epoch": {"type": "integer", "description": "the leadership in which it was written"},
        "key": {"type": ["string", "null"], "description": "the key, if it is UTF-8 text or null"},
        "key_base64": {"type": "string", "description": "the key otherwise"},
        "value": {"type": ["string", "null"], "description": "the value, if it is UTF-8 text or null"},
        "value_base64": {"type": "string", "description": "the value otherwise"},
        "headers": {
            "type": "array",
            "description": "in order; a key may come twice",
            "items": {
                "type": "object",
                "properties": {
                    "key": {"type": "string"},
                    "value": {"type": ["string", "null"]},
                    "value_base64": {"type": "string"},
                },
            },
        },
    },
}


_FIELDS = frozenset(SCHEMA["properties"])


class RecordJsonError(ValueError):
    """A line that is no record."""


def record_line(fetched: FetchedRecord) -> bytes:
    """One record as a line."""
    record, header = fetched.record, fetched.header
    document: dict[str, Any] = {
        "topic": fetched.partition.topic,
        "partition": fetched.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "leader_epoch": header.partition_leader_epoch,
    }
    put_bytes(document, "key", record.key)
    put_bytes(document, "value", record.value)
    document["headers"] = header_objects(record.headers)
    # Only what a header key holds of bytes that are no text needs escapes: as surrogates they have no UTF-8 form.
    try:
        return json.dumps(document, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(document).encode() + b"\n"


def parse_record(line: bytes) -> tuple[str | None, OutgoingRecord]:
    """(topic if it is named, record) of a line."""
    try:
        document = json.loads(line)
    except ValueError as error:
        raise RecordJsonError(f"no JSON: {error}") from None
    if not isinstance(document, dict):
        raise RecordJsonError("no JSON object")
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        raise RecordJsonError(f"a record has no {', '.join(unknown)}; it has {', '.join(sorted(_FIELDS))}")
    topic = document.get("topic")
    if topic is not None and not isinstance(topic, str):
        raise RecordJsonError("topic must be a string")
    record = OutgoingRecord(
        _take_bytes(document, "key"),
        _take_bytes(document, "value"),
        _take_headers(document.get("headers") or []),
        _take_number(document, "partition"),
        _take_number(document, "timestamp"),
    )
    return topic, record


def header_objects(headers: Iterable[Header]) -> list[dict[str, Any]]:
    """The headers as they stand in JSON."""
    objects = []
    for key, value in headers:
        item: dict[str, Any] = {"key": key}
        put_bytes(item, "value", value)
        objects.append(item)
    return objects


def put_bytes(document: dict[str, Any], name: str, value: bytes | None) -> None:
    """Text under its name, other bytes in base64 under another."""
    if value is None:
        document[name] = None
        return
    try:
        document[name] = value.decode()
    except UnicodeDecodeError:
        document[name + "_base64"] = base64.b64encode(value).decode()


def _take_bytes(document: dict[str, Any], name: str) -> bytes | None:
    encoded = document.get(name + "_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise RecordJsonError(f"{name}_base64 is no base64") from None
    value = document.get(name)
    if value is None:
        return None
    # A document given as such is meant as its JSON text: {"value": {"id": 1}}.
    return _utf8(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _utf8(text: str) -> bytes:
    """The text's bytes; lone surrogates that stand for a byte become that byte again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise RecordJsonError(f"{text!r} holds half of a surrogate pair, which is no character") from None


def _take_number(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise RecordJsonError(f"{name} must be a number")


def _take_headers(value: Any) -> tuple[Header, ...]:
    """A list of {"key", "value"}, or an object for those who have no key twice."""
    items = [{"key": key, "value": item} for key, item in value.items()] if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise RecordJsonError("headers must be a list")
    headers = []
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("key"), str):
            raise RecordJsonError('a header must be {"key": ..., "value": ...}')
        _utf8(item["key"])
        headers.append((item["key"], _take_bytes(item, "value")))
    return tuple(headers)
