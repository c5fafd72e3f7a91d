"""The logic behind `kafkapy wire check` and `kafkapy wire decode`: byte vectors against the codecs, and bytes made readable.

A file of vectors (.jsonl or .jsonl.gz) has one JSON object per line, of one of three forms:
    api, kind, version, variant, hex, json     the body of a request or response
    set, name, version, variant, hex, json     a header, a record of a coordinator or the controller, another structure
    case, compression, hex, json               a set of record batches; see check_batches.py
Reading `hex` must give `json`; writing `json` must give `hex`, except where the variant says that it has unknown tags. Both
ways are gone by the generated codecs and by construct.
"""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from kafkapy.errors import KafkaError, ProtocolError
from kafkapy.wire.apis import API_BY_KEY, Api, api_by_name
from kafkapy.wire.header import RequestHeader, ResponseHeader
from kafkapy.wire.json_form import uuid_text
from kafkapy.wire.schema import EncodeError, Message

# The sets of struct vectors, and where their classes are declared.
STRUCT_MODULES = {
    "header": ("kafkapy.wire.header",),
    "data": ("kafkapy.wire.protocol_data",),
    "group": (
        "kafkapy.wire.group_records",
        "kafkapy.wire.consumer_group_records",
        "kafkapy.wire.share_group_records",
        "kafkapy.wire.streams_group_records",
    ),
    "transaction": ("kafkapy.wire.transaction_records",),
    "share": ("kafkapy.wire.share_records",),
    "metadata": ("kafkapy.wire.metadata_records",),
}


def struct_class(set_: str, name: str) -> type[Message]:
    """The class of that name in one of the sets; KeyError if there is none."""
    for module_name in STRUCT_MODULES[set_]:
        cls = getattr(importlib.import_module(module_name), name, None)
        if cls is not None:
            found: type[Message] = cls
            return found
    raise KeyError(name)


class Mismatch(Exception):
    """A codec does something else than the vector says."""


def check_files(paths: Iterable[str | Path], echo: Callable[[str], Any]) -> int:
    """Check every vector of the files, tell each failure and the numbers. The exit status: 0 if nothing failed."""
    passed = failed = 0
    for path in paths:
        try:
            for number, line in _lines(Path(path)):
                try:
                    check_vector(json.loads(line))
                    passed += 1
                except (Mismatch, ProtocolError, KafkaError, EncodeError, ValueError, LookupError, TypeError) as error:
                    failed += 1
                    echo(f"{path}:{number}: {_label(line)}: {_reason(error)}")
        except (OSError, EOFError, UnicodeDecodeError) as error:
            failed += 1
            echo(f"{path}: {error}")
    echo(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def check_vector(vector: dict[str, Any]) -> None:
    """Check one vector of any form; raises what is wrong with it."""
    if "case" in vector:
        from kafkapy.wire.check_batches import check_batches

        check_batches(vector)
    elif "set" in vector:
        _check_message(struct_class(vector["set"], vector["name"]), vector)
    else:
        api = API_BY_KEY[vector["key"]] if "key" in vector else api_by_name(vector["api"])
        _check_message(_class_of(api, vector["kind"]), vector)


def decode_text(api: str, version: int, kind: str, hex: str, header: bool = False) -> str:
    """Bytes as text, one line per field: where it stands, its bytes, its name and value.

    `api` is a name or key, `kind` request or response. With `header` the bytes start with the header that belongs to the
    version. ValueError where the question makes no sense; bytes that make none are part of the answer.
    """
    found, cls = _find(api, version, kind)
    try:
        raw = bytes.fromhex("".join(hex.split()))
    except ValueError as error:
        raise ValueError(f"not hexadecimal: {error}") from error
    lines, start = [], 0
    if header:
        request = kind == "request"
        header_cls: type[Message] = RequestHeader if request else ResponseHeader
        header_version = found.request_header_version(version) if request else found.response_header_version(version)
        text, start = _explained(header_cls, header_version, raw, 0)
        lines += text
    if start >= 0:
        text, start = _explained(cls, version, raw, start)
        lines += text
    if 0 <= start < len(raw):
        lines.append("1 byte follows that is" if len(raw) - start == 1 else f"{len(raw) - start} bytes follow that are")
        lines[-1] += " no part of it"
    return "\n".join(lines)


def _explained(cls: type[Message], version: int, raw: bytes, start: int) -> tuple[list[str], int]:
    """The lines of one message, and where it ends; -1 where it cannot be read."""
    from kafkapy.wire.constructs import explain

    trace, end_of_message, problem = explain(cls, version, raw[start:])
    lines = [f"{cls.__name__} version {version}, from byte {start}"]
    for depth, name, kind, first, end, value in trace:
        shown = raw[start + first : start + end].hex() if end >= 0 else ""
        if end >= 0 and (kind in ("array", "struct") or len(shown) > 32):
            shown = f"{end - first} byte{'' if end - first == 1 else 's'}"
        text = f"{'  ' * depth}{name}{_value_text(kind, value) if end >= 0 else ' cannot be read'}"
        lines.append(f"{start + first:6}  {shown:32}  {text}")
    if problem is not None:
        return [*lines, problem], -1
    return lines, start + end_of_message


def _value_text(kind: str, value: Any) -> str:
    if value is None:
        return " = null"
    if kind == "array":
        return f": {len(value)} element{'' if len(value) == 1 else 's'}"
    if kind == "struct":
        return ""
    if kind == "uuid":
        return f" = {uuid_text(value)}"
    if kind in ("bytes", "records"):
        return f" = {len(value)} bytes"
    return f" = {json.dumps(value, ensure_ascii=False)}"


def _find(name: str, version: int, kind: str) -> tuple[Api, type[Message]]:
    try:
        api = api_by_name(name)
    except KeyError:
        raise ValueError(f"there is no API {name}") from None
    cls = _class_of(api, kind)
    if version not in cls.SCHEMA.versions:
        raise ValueError(f"{api.name} has the versions {api.versions}, not {version}")
    return api, cls


def _class_of(api: Api, kind: str) -> type[Message]:
    if kind not in ("request", "response"):
        raise ValueError(f"a message is a request or a response, not {kind}")
    return api.request if kind == "request" else api.response


def _check_message(cls: type[Message], vector: dict[str, Any]) -> None:
    """Read and write one message by both codecs."""
    from construct import ConstructError

    version, raw, value = vector["version"], bytes.fromhex(vector["hex"]), vector["json"]
    writes = vector.get("variant") != "unknown-tags"
    message, pos = cls.decoder(version)(raw, 0, len(raw))
    if pos != len(raw):
        raise Mismatch(f"decoding ends at byte {pos} of {len(raw)}")
    _compare("decoding", message.to_json(version), value)
    built = cls.from_json(value, version)
    if writes:
        _compare("encoding", built.encode(version).hex(), vector["hex"])
    try:
        construct = cls.construct(version)
        _compare("decoding by construct", construct.parse(raw).to_json(version), value)
        if writes:
            _compare("encoding by construct", construct.build(built).hex(), vector["hex"])
    except ConstructError as error:
        raise Mismatch(f"construct: {_reason(error)}") from error


def _compare(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        path, found, wanted = first_difference(found, wanted)
        raise Mismatch(f"{what}{path} gives {found!r}, not {wanted!r}")


def first_difference(found: Any, wanted: Any, path: str = "") -> tuple[str, Any, Any]:
    """Where two JSON values differ first, and how: a whole message is too much to look at."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in [*wanted, *found]:
            if name not in found or name not in wanted:
                return f"{path} {name}", found.get(name, "nothing"), wanted.get(name, "nothing")
            if found[name] != wanted[name]:
                return first_difference(found[name], wanted[name], f"{path} {name}")
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one != other:
                return first_difference(one, other, f"{path} [{number}]")
    return path, found, wanted


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, empty ones left out."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line


def _label(line: str) -> str:
    """What a vector calls itself."""
    try:
        vector = json.loads(line)
    except ValueError:
        return "not a vector"
    if not isinstance(vector, dict):
        return "not a vector"
    names = ("api", "kind", "set", "name", "version", "variant", "case", "compression")
    return " ".join(str(vector[name]) for name in names if name in vector) or "not a vector"


def _reason(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return text if isinstance(error, Mismatch) else f"{type(error).__name__}: {text}"
