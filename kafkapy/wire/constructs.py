"""The same declarations in the types of the construct library.

The compiled codecs are made for speed; these are made to be looked at and to disagree. They interpret the declaration with
construct's own Struct, Array, VarInt and numbers, and share no line with the generated code, so the tests hold one against the
other. `explain` lists which bytes became which field. Nothing that a broker does imports this module.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import construct as c

from kafkapy.wire.primitives import STRING_BYTES_MAX
from kafkapy.wire.schema import EncodeError, Field, Message, Struct

_FIXED = {
    "boolean": c.Flag,
    "int8": c.Int8sb,
    "int16": c.Int16sb,
    "int32": c.Int32sb,
    "int64": c.Int64sb,
    "uint16": c.Int16ub,
    "uint32": c.Int32ub,
    "float64": c.Float64b,
    "uuid": c.Bytes(16),
}
_BYTES = (bytes, bytearray, memoryview)


class Trace(NamedTuple):
    """One field or array element of a parsed message: how deep, and where it stands, and what it is.

    `end` is -1 for what could not be read to its end.
    """

    depth: int
    name: str
    kind: str
    first: int
    end: int
    value: Any


class UnsignedVarInt(c.Construct):
    """construct's VarInt has no upper bound; Kafka's has 32 bits in at most five bytes."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        first = c.stream_tell(stream, path)
        value: int = c.VarInt._parsereport(stream, context, path)
        if value > 0xFFFFFFFF or c.stream_tell(stream, path) - first > 5:
            raise c.IntegerError("an unsigned varint is longer than 32 bits", path=path)
        return value

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        c.VarInt._build(obj, stream, context, path)
        return obj


UVARINT = UnsignedVarInt()


class CompactLength(c.Adapter):
    """An unsigned varint of length + 1: null is -1 for whoever uses it, as with the plain lengths."""

    def __init__(self) -> None:
        super().__init__(UVARINT)

    def _decode(self, obj: int, context: Any, path: str) -> int:
        return obj - 1

    def _encode(self, obj: int, context: Any, path: str) -> int:
        return obj + 1


COMPACT_LENGTH = CompactLength()


class Counted(c.Construct):
    """A length or count, then what it counts; a negative one is null, which must be allowed."""

    def __init__(self, length: Any, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.nullable = nullable

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        length = self.length._parsereport(stream, context, path)
        if length >= 0:
            return self.parse_items(length, stream, context, path)
        if not self.nullable:
            raise c.ValidationError("null where the protocol has none", path=path)
        return None

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is not None:
            self.build_items(obj, stream, context, path)
        elif self.nullable:
            self.length._build(-1, stream, context, path)
        else:
            raise c.ValidationError("null where the protocol has none", path=path)
        return obj

    def parse_items(self, length: int, stream: Any, context: Any, path: str) -> Any:
        """Read what is counted."""
        return c.stream_read(stream, length, path)

    def build_items(self, obj: Any, stream: Any, context: Any, path: str) -> None:
        """Write the length and what it counts."""
        if not isinstance(obj, _BYTES):
            raise c.StringError("only bytes can be built, file slices cannot", path=path)
        self.length._build(len(obj), stream, context, path)
        c.stream_write(stream, bytes(obj), len(obj), path)


class CountedString(Counted):
    """UTF-8 after its length in bytes."""

    def parse_items(self, length: int, stream: Any, context: Any, path: str) -> Any:
        if length > STRING_BYTES_MAX:
            raise c.StringError(f"a string of {length} bytes", path=path)
        raw = c.stream_read(stream, length, path)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise c.StringError(str(error), path=path) from error

    def build_items(self, obj: Any, stream: Any, context: Any, path: str) -> None:
        raw = obj.encode()
        if len(raw) > STRING_BYTES_MAX:
            raise c.StringError(f"a string of {len(raw)} bytes", path=path)
        super().build_items(raw, stream, context, path)


class CountedArray(Counted):
    """Elements after their number."""

    def __init__(self, length: Any, nullable: bool, element: Any) -> None:
        super().__init__(length, nullable)
        self.element = element

    def parse_items(self, length: int, stream: Any, context: Any, path: str) -> Any:
        return list(c.Array(length, self.element)._parsereport(stream, context, path))

    def build_items(self, obj: Any, stream: Any, context: Any, path: str) -> None:
        self.length._build(len(obj), stream, context, path)
        c.Array(len(obj), self.element)._build(obj, stream, context, path)


class NullableStructure(c.Subconstruct):
    """A byte in front of the structure: -1 is null, but 0 in a tag section, where it was a compact length."""

    def __init__(self, subcon: Any, in_tag: bool) -> None:
        super().__init__(subcon)
        self.in_tag = in_tag

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        mark = c.Int8sb._parsereport(stream, context, path)
        if mark == 0 if self.in_tag else mark < 0:
            return None
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            c.Int8sb._build(0 if self.in_tag else -1, stream, context, path)
        else:
            c.Int8sb._build(1, stream, context, path)
            self.subcon._build(obj, stream, context, path)
        return obj


class TagSection(c.Construct):
    """Number of tagged fields, then (tag, size, content) of each. Parses to a dict by tag, builds from one."""

    def __init__(self, by_tag: dict[int, Any]) -> None:
        super().__init__()
        self.by_tag = by_tag

    def _parse(self, stream: Any, context: Any, path: str) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for _ in range(UVARINT._parsereport(stream, context, path)):
            tag = UVARINT._parsereport(stream, context, path)
            size = UVARINT._parsereport(stream, context, path)
            first = c.stream_tell(stream, path)
            if tag not in self.by_tag:
                self._unknown(tag, c.stream_read(stream, size, path), first, context)
                continue
            found[tag] = self.by_tag[tag]._parsereport(stream, context, path)
            if c.stream_tell(stream, path) != first + size:
                raise c.ValidationError(f"tag {tag} has another size than its content", path=path)
        return found

    def _unknown(self, tag: int, content: bytes, first: int, context: Any) -> None:
        """Skipped, but not hidden from a reader."""
        if "trace" in context._params:
            depth = context._params.depth[0]
            context._params.trace.append(Trace(depth, f"tag {tag}", "bytes", first, first + len(content), content))

    def _build(self, obj: dict[int, Any], stream: Any, context: Any, path: str) -> Any:
        UVARINT._build(len(obj), stream, context, path)
        for tag, value in sorted(obj.items()):
            content = self.by_tag[tag].build(value)
            UVARINT._build(tag, stream, context, path)
            UVARINT._build(len(content), stream, context, path)
            c.stream_write(stream, content, len(content), path)
        return obj


class Traced(c.Subconstruct):
    """Notes where a field or element stands, if the parser was given a list to note it in."""

    def __init__(self, subcon: Any, field: Field) -> None:
        super().__init__(subcon)
        self.field_name = field.json_name
        self.kind = field.kind

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        trace = context._params.get("trace")
        if trace is None:
            return self.subcon._parsereport(stream, context, path)
        first, number = c.stream_tell(stream, path), len(trace)
        # Noted before it is read: a reader wants to see the whole before its parts, and also what could not be read.
        name, depth = self.field_name or f"[{context._index}]", context._params.depth
        trace.append(Trace(depth[0], name, self.kind, first, -1, None))
        depth[0] += 1
        value = self.subcon._parsereport(stream, context, path)
        depth[0] -= 1
        trace[number] = Trace(depth[0], name, self.kind, first, c.stream_tell(stream, path), value)
        return value


class Structure(c.Adapter):
    """construct's Struct on the wire, an object of the declared class in Python."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls = cls
        self.absent = [f for f in cls.SCHEMA.fields if version not in f.versions]
        present = [f for f in cls.SCHEMA.fields if version in f.versions]
        self.body = [f for f in present if not f.is_tagged(version)]
        self.tagged = {f.tag: f for f in present if f.tag is not None and f.is_tagged(version)}
        parts = [f.json_name / Traced(_construct_of(f, version, flexible), f) for f in self.body]
        if flexible:
            tags = {tag: Traced(_construct_of(f, version, True, in_tag=True), f) for tag, f in self.tagged.items()}
            parts.append("_tags" / TagSection(tags))
        self.flexible = flexible
        super().__init__(c.Struct(*parts))

    def _decode(self, obj: Any, context: Any, path: str) -> Struct:
        values = {field.name: obj[field.json_name] for field in self.body}
        if self.flexible:
            values.update((self.tagged[tag].name, value) for tag, value in obj["_tags"].items())
        return self.cls(**values)

    def _encode(self, obj: Struct, context: Any, path: str) -> dict[str, Any]:
        for field in self.absent:
            if not field.ignorable and getattr(obj, field.name) != field.make_default():
                raise EncodeError(f"{self.cls.__name__}.{field.name} is not in this version")
        values: dict[str, Any] = {field.json_name: getattr(obj, field.name) for field in self.body}
        if self.flexible:
            values["_tags"] = {
                tag: getattr(obj, field.name)
                for tag, field in self.tagged.items()
                if getattr(obj, field.name) != field.make_default()
            }
        return values


def make_construct(cls: type[Message], version: int) -> Structure:
    """The construct of a message in one version: `.parse(bytes)` gives an object, `.build(object)` bytes."""
    return Structure(cls, version, version in cls.SCHEMA.flexible)


class Explained(NamedTuple):
    """Which bytes are which field, in the order of the bytes; where it ends, or why that could not be found out."""

    trace: list[Trace]
    end: int
    problem: str | None


def explain(cls: type[Message], version: int, raw: bytes) -> Explained:
    """Read a message and tell how."""
    trace: list[Trace] = []
    stream = io.BytesIO(raw)
    try:
        cls.construct(version).parse_stream(stream, trace=trace, depth=[0])
    except c.ConstructError as error:
        return Explained(trace, -1, _reason(error))
    return Explained(trace, stream.tell(), None)


def _construct_of(field: Field, version: int, flexible: bool, in_tag: bool = False) -> Any:
    if field.kind in _FIXED:
        return _FIXED[field.kind]
    nullable = version in field.nullable
    if field.kind == "struct":
        assert field.struct is not None
        structure = Structure(field.struct, version, flexible)
        return NullableStructure(structure, in_tag) if nullable else structure
    compact = flexible and field.flexible
    if field.kind == "string":
        return CountedString(COMPACT_LENGTH if compact else c.Int16sb, nullable)
    length = COMPACT_LENGTH if compact else c.Int32sb
    if field.kind == "array":
        assert field.element is not None
        return CountedArray(length, nullable, Traced(_construct_of(field.element, version, flexible), field.element))
    return Counted(length, nullable)


def _reason(error: c.ConstructError) -> str:
    """What construct says in several lines, the place first, in one line."""
    place, _, problem = str(error).partition("\n")
    return f"{problem.strip() or type(error).__name__} ({place.removeprefix('Error in path ')})"
