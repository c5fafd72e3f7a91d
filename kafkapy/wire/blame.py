"""Finds the field that could not be written. Generated encoders don't know which one it was, and asking first would cost too much."""

from __future__ import annotations

from typing import Any

from kafkapy.wire.schema import EncodeError, Field, Struct

_BITS = {"int8": (8, True), "int16": (16, True), "int32": (32, True), "int64": (64, True)}
_BITS |= {"uint16": (16, False), "uint32": (32, False)}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bytes": (bytes, bytearray, memoryview),
    "uuid": (bytes, bytearray, memoryview),
    "float64": (float, int),
    "array": (list, tuple),
}


def encode_error(obj: Struct, version: int, error: Exception) -> EncodeError:
    """What to raise after `error`: it names the first field whose value the version cannot carry."""
    problem = _in_struct(obj, version, "") or str(error)
    return EncodeError(f"{type(obj).__name__} version {version}: {problem}")


def _in_struct(obj: Any, version: int, path: str) -> str | None:
    for field in obj.SCHEMA.fields:
        if version in field.versions:
            problem = _in_value(field, getattr(obj, field.name), version, f"{path}{field.name}")
            if problem:
                return problem
    return None


def _in_value(field: Field, value: Any, version: int, path: str) -> str | None:
    if value is None:
        return None if version in field.nullable else f"{path} is None"
    if field.kind in _BITS:
        bits, signed = _BITS[field.kind]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        fits = isinstance(value, int) and low <= value <= high
        return None if fits else f"{path} is {value!r}, which is no {field.kind}"
    if field.kind == "struct":
        assert field.struct is not None
        if not isinstance(value, field.struct):
            return f"{path} is of type {type(value).__name__}, not {field.struct.__name__}"
        return _in_struct(value, version, f"{path}.")
    types = _TYPES.get(field.kind)
    if types and not isinstance(value, types):
        return f"{path} is of type {type(value).__name__}, which is no {field.kind}"
    if field.kind == "string" and len(value.encode("utf-8", "surrogatepass")) > 32767:
        return f"{path} has more than 32767 bytes"
    if field.kind == "array":
        assert field.element is not None
        for number, item in enumerate(value):
            problem = _in_value(field.element, item, version, f"{path}[{number}]")
            if problem:
                return problem
    return None
