"""How records and blobs are stored: a declared structure together with the numbers that say how to read it.

    metadata record      unsigned varints: frame version (1), record type, version; then the body
    coordinator key      int16 record type; then the body, always in version 0
    coordinator value    int16 version; then the body. Its type is that of the key; no value at all means "removed"
    blob in a message    int16 version; then the body (ConsumerProtocolSubscription, ConsumerProtocolAssignment,
                         DefaultPrincipalData)

Everything here comes from a disk or from a peer, so it is checked: a bad frame raises ProtocolError. A type that is not
known raises UnknownRecordType, because a coordinator may skip what a newer broker has written, but not what is damaged.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from kafkapy.errors import ProtocolError
from kafkapy.wire.primitives import Buffer, read_uvarint, write_uvarint
from kafkapy.wire.schema import Message, Record

METADATA_FRAME_VERSION = 1

_INT16_MAX = 32767

M = TypeVar("M", bound=Message)


class UnknownRecordType(ProtocolError):
    """The frame is sound, but no record of that type is declared."""

    def __init__(self, topic: str, type_: int) -> None:
        super().__init__(f"{topic} has no record type {type_}")
        self.type = type_


# Metadata records.


def encode_metadata_record(record: Record, version: int) -> bytes:
    """The value of a record in the metadata log."""
    out = bytearray()
    write_uvarint(out, METADATA_FRAME_VERSION)
    write_uvarint(out, record.SCHEMA.type)
    write_uvarint(out, version)
    type(record).encoder(version)(record, out, [])
    return bytes(out)


def decode_metadata_record(value: Buffer) -> tuple[Record, int]:
    """The record of a value in the metadata log, and the version in which it was written."""
    frame_version, pos = _read_type_or_version(value, 0)
    if frame_version != METADATA_FRAME_VERSION:
        raise ProtocolError(f"metadata record with frame version {frame_version}")
    type_, pos = _read_type_or_version(value, pos)
    version, pos = _read_type_or_version(value, pos)
    record, pos = metadata_record_class(type_).decoder(version)(value, pos, len(value))
    if pos != len(value):
        raise ProtocolError(f"{len(value) - pos} bytes follow the metadata record {record.SCHEMA.name}")
    return record, version


def metadata_record_class(type_: int) -> type[Record]:
    """The class of a metadata record type."""
    try:
        return _metadata_classes()[type_]
    except KeyError:
        raise UnknownRecordType("the metadata log", type_) from None


@cache
def _metadata_classes() -> dict[int, type[Record]]:
    return {cls.SCHEMA.type: cls for cls in _declared_records("metadata_records")}


# Records of coordinators.


class CoordinatorRecords:
    """The record types of one coordinator's topic.

    The classes of a type are imported when its first record is read: a broker without share groups never pays for them.
    """

    __slots__ = ("_classes", "_module_by_type", "topic")

    def __init__(self, topic: str, types_by_module: dict[str, Iterable[int]]) -> None:
        self.topic = topic
        self._module_by_type = {type_: module for module, types in types_by_module.items() for type_ in types}
        self._classes: dict[int, tuple[type[Record], type[Record]]] = {}

    @property
    def types(self) -> list[int]:
        """All record types that are declared."""
        return sorted(self._module_by_type)

    def classes(self, type_: int) -> tuple[type[Record], type[Record]]:
        """The classes of a record type's keys and values."""
        classes = self._classes.get(type_)
        if classes is None:
            module_name = self._module_by_type.get(type_)
            if module_name is None:
                raise UnknownRecordType(self.topic, type_)
            declared = [cls for cls in _declared_records(module_name) if cls.SCHEMA.type == type_]
            (key,) = (cls for cls in declared if cls.__name__.endswith("Key"))
            (value,) = (cls for cls in declared if cls.__name__.endswith("Value"))
            classes = self._classes[type_] = (key, value)
        return classes

    def decode_key(self, key: Buffer) -> Record:
        """The key of a stored record: its class says what the record is about."""
        return self.classes(_read_int16(key))[0].decoder(0)(key, 2, len(key))[0]

    def decode_value(self, type_: int, value: Buffer) -> tuple[Record, int]:
        """The value of a stored record of that type, and the version in which it was written."""
        version = _read_int16(value)
        return self.classes(type_)[1].decoder(version)(value, 2, len(value))[0], version

    def decode(self, key: Buffer, value: Buffer | None) -> tuple[Record, Record | None]:
        """A stored record; a value of None says that what the key names is gone."""
        key_record = self.decode_key(key)
        if value is None:
            return key_record, None
        return key_record, self.decode_value(key_record.SCHEMA.type, value)[0]


GROUP_RECORDS = CoordinatorRecords(
    "__consumer_offsets",
    {
        "group_records": (0, 1, 2),
        "consumer_group_records": (3, 4, 5, 6, 7, 8, 16),
        "share_group_records": (10, 11, 12, 13, 14, 15),
        "streams_group_records": (17, 19, 20, 21, 22, 23),
    },
)
TRANSACTION_RECORDS = CoordinatorRecords("__transaction_state", {"transaction_records": (0,)})
SHARE_RECORDS = CoordinatorRecords("__share_group_state", {"share_records": (0, 1)})


def encode_key(key: Record) -> bytes:
    """The key of a coordinator's record as it is stored."""
    out = bytearray(key.SCHEMA.type.to_bytes(2, "big"))
    type(key).encoder(0)(key, out, [])
    return bytes(out)


def encode_value(value: Record, version: int) -> bytes:
    """The value of a coordinator's record as it is stored."""
    return encode_blob(value, version)


# Blobs inside other messages.


def encode_blob(message: Message, version: int) -> bytes:
    """A structure behind its version."""
    out = bytearray(version.to_bytes(2, "big"))
    type(message).encoder(version)(message, out, [])
    return bytes(out)


def decode_blob(cls: type[M], blob: Buffer, *, newer_as_latest: bool = False) -> M:
    """A structure behind its version.

    `newer_as_latest` reads a version that is not known yet as the latest one that is: the consumer protocol only ever
    adds fields at the end, so that a group whose members differ in age still works.
    """
    version = _read_int16(blob)
    latest = cls.SCHEMA.versions.last
    if newer_as_latest and version > latest:
        version = latest
    message: M = cls.decoder(version)(blob, 2, len(blob))[0]
    return message


# The numbers of the frames.


def _read_int16(buf: Buffer) -> int:
    if len(buf) < 2:
        raise ProtocolError(f"a frame of {len(buf)} bytes has no room for its type or version")
    return int.from_bytes(buf[:2], "big", signed=True)


def _read_type_or_version(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint that must fit an int16, and the position after it."""
    try:
        number, pos = read_uvarint(buf, pos)
    except IndexError:
        raise ProtocolError("the frame of a metadata record ends too early") from None
    if number > _INT16_MAX:
        raise ProtocolError(f"{number} is no type or version of a metadata record")
    return number, pos


def _declared_records(module_name: str) -> list[type[Record]]:
    """All record classes that a module of this package declares."""
    values = vars(importlib.import_module(f"kafkapy.wire.{module_name}")).values()
    return [v for v in values if isinstance(v, type) and issubclass(v, Record) and v.SCHEMA.type >= 0]
