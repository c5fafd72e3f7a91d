"""Messages as plain JSON values: for people, and for the vectors that the codecs are checked with.

Names are camelCase, bytes and records are base64, uuids base64url without padding. What a version lacks is absent, and so are
tagged fields at their default. This walks the declaration each time: nothing here is meant to be fast.
"""

from __future__ import annotations

import base64
from typing import Any, TypeVar

from kafkapy.wire.schema import EncodeError, Field, Struct

S = TypeVar("S", bound=Struct)


def to_json(obj: Struct, version: int) -> dict[str, Any]:
    """The fields that the version carries, by their JSON names."""
    found: dict[str, Any] = {}
    for field in obj.SCHEMA.fields:
        value = getattr(obj, field.name)
        if version not in field.versions:
            continue
        if field.is_tagged(version) and value == field.make_default():
            continue
        found[field.json_name] = _value_to_json(field, value, version)
    return found


def from_json(cls: type[S], value: dict[str, Any], version: int) -> S:
    """An object of the class: absent fields have their defaults, unknown names are an error."""
    obj = cls()
    rest = dict(value)
    for field in cls.SCHEMA.fields:
        if field.json_name in rest:
            setattr(obj, field.name, _value_from_json(field, rest.pop(field.json_name), version))
    if rest:
        raise EncodeError(f"{cls.__name__} has no {', '.join(rest)}")
    return obj


def uuid_text(value: bytes) -> str:
    """Kafka's form of a uuid: 22 characters."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """The sixteen bytes of Kafka's form of a uuid."""
    return base64.urlsafe_b64decode(text + "==")


def _value_to_json(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        element = field.element
        assert element is not None
        return [_value_to_json(element, item, version) for item in value]
    if field.kind == "struct":
        return to_json(value, version)
    if field.kind == "uuid":
        return uuid_text(value)
    if field.kind in ("bytes", "records"):
        return base64.b64encode(value).decode()
    return value


def _value_from_json(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        element = field.element
        assert element is not None
        return [_value_from_json(element, item, version) for item in value]
    if field.kind == "struct":
        assert field.struct is not None
        return from_json(field.struct, value, version)
    if field.kind == "uuid":
        return uuid_bytes(value)
    if field.kind in ("bytes", "records"):
        return base64.b64decode(value)
    return value
