"""How a Kafka message is declared: one class per message stands for all of its versions.

    class TopicProduceData(Struct):
        name: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partition_data: list[PartitionProduceData] = array(PartitionProduceData)

    class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
        transactional_id: str | None = string(nullable="3+", default=None)
        topic_data: list[TopicProduceData] = array(TopicProduceData)

A field's version ranges always refer to the version of the message, also inside a nested structure, because a structure
has no version of its own. From the declaration come the compiled codecs (compiler.py), the same message in construct's
types (constructs.py) and its JSON form (json_form.py); each is made the first time that somebody asks for it.

The classes are slotted: the fields leave the class body before the class is made, so an instance is only its values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, Self, dataclass_transform

from kafkapy.errors import ProtocolError
from kafkapy.types import ZERO_UUID

# A range that ends with "+" ends here: the largest version that an int16 can carry.
VERSION_MAX = 32767

Decoder = Callable[[Any, int, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray, list[tuple[int, Any]]], None]


class EncodeError(ValueError):
    """Our own mistake: an object that cannot be written in the version that was asked for."""


class Versions:
    """A range of versions, both ends inclusive; empty when `first` is greater than `last`."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """Read "3+", "0-12" or "5"; None is the empty range."""
        if text is None:
            return NEVER
        first, dash, last = text.partition("-")
        if dash:
            return cls(int(first), int(last))
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        return cls(int(text), int(text))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Versions) and (self.first, self.last) == (other.first, other.last)

    def __hash__(self) -> int:
        return hash((self.first, self.last))

    def __repr__(self) -> str:
        if self.first > self.last:
            return "never"
        return f"{self.first}+" if self.last == VERSION_MAX else f"{self.first}-{self.last}"


NEVER = Versions(0, -1)
ALWAYS = Versions(0, VERSION_MAX)


class _Unset:
    """Stands for "not given" where None is a value of its own."""

    def __repr__(self) -> str:
        return "unset"


UNSET: Any = _Unset()

# The value of a field that nobody set. Arrays and structures are made anew for each object; see `Field.make_default`.
_ZERO: dict[str, Any] = {
    "boolean": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": ZERO_UUID,
    "float64": 0.0,
}


class Field:
    """One declared field: `kind` names the field function, `element` what an array holds, `struct` a nested class."""

    __slots__ = (
        "default",
        "element",
        "flexible",
        "ignorable",
        "json_name",
        "kind",
        "name",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: str | None = None,
        *,
        element: Field | None = None,
        struct: type[Struct] | None = None,
        nullable: str | None = None,
        default: Any = UNSET,
        tag: int | None = None,
        tagged: str | None = None,
        ignorable: bool = False,
        flexible: bool = True,
        json: str | None = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.element = element
        self.struct = struct
        self.versions = ALWAYS if versions is None else Versions.parse(versions)
        self.nullable = Versions.parse(nullable)
        self.tag = tag
        self.tagged = Versions.parse(tagged)
        self.ignorable = ignorable
        self.flexible = flexible
        self.json_name = json or ""
        if default is UNSET:
            default = [] if kind == "array" else _ZERO.get(kind, 0)
        self.default = default
        if (tag is None) != (tagged is None):
            raise TypeError("tag and tagged go together")

    def bind(self, name: str) -> None:
        """Take the attribute's name, and derive the JSON name from it."""
        self.name = name
        if not self.json_name:
            first, *rest = name.rstrip("_").split("_")
            self.json_name = first + "".join(part[:1].upper() + part[1:] for part in rest)

    @property
    def is_fresh(self) -> bool:
        """Whether the default must be made anew for each object because it can be changed."""
        return self.default is not None and self.kind in ("array", "struct")

    def make_default(self) -> Any:
        """The value of the field in an object where nobody set it."""
        if not self.is_fresh:
            return self.default
        return [] if self.struct is None or self.kind == "array" else self.struct()

    def is_tagged(self, version: int) -> bool:
        """Whether the field stands in the tag section in this version."""
        return self.tag is not None and version in self.tagged

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.versions!r}>"


# The field functions say that they return Any so that the annotation, not the function, decides an attribute's type.


def boolean(versions: str | None = None, **options: Any) -> Any:
    """One byte; any value but zero is true."""
    return Field("boolean", versions, **options)


def int8(versions: str | None = None, **options: Any) -> Any:
    """A signed byte."""
    return Field("int8", versions, **options)


def int16(versions: str | None = None, **options: Any) -> Any:
    """Two bytes, signed, big-endian like all numbers here."""
    return Field("int16", versions, **options)


def int32(versions: str | None = None, **options: Any) -> Any:
    """Four bytes, signed."""
    return Field("int32", versions, **options)


def int64(versions: str | None = None, **options: Any) -> Any:
    """Eight bytes, signed."""
    return Field("int64", versions, **options)


def uint16(versions: str | None = None, **options: Any) -> Any:
    """Two bytes, unsigned: a port."""
    return Field("uint16", versions, **options)


def uint32(versions: str | None = None, **options: Any) -> Any:
    """Four bytes, unsigned."""
    return Field("uint32", versions, **options)


def float64(versions: str | None = None, **options: Any) -> Any:
    """Eight bytes, IEEE 754."""
    return Field("float64", versions, **options)


def string(versions: str | None = None, **options: Any) -> Any:
    """UTF-8 after an int16 length, or after an unsigned varint of length + 1 where the message is flexible."""
    return Field("string", versions, **options)


def bytes_(versions: str | None = None, **options: Any) -> Any:
    """Bytes after an int32 length, or after an unsigned varint of length + 1 where the message is flexible."""
    return Field("bytes", versions, **options)


def records(versions: str | None = None, **options: Any) -> Any:
    """Encoded like bytes, but decoded to a memoryview of the input: record batches are never copied on their way."""
    return Field("records", versions, **options)


def uuid(versions: str | None = None, **options: Any) -> Any:
    """Sixteen bytes, kept as `bytes`."""
    return Field("uuid", versions, **options)


def array(of: type[Struct] | Callable[[], Any], versions: str | None = None, **options: Any) -> Any:
    """A list of a Struct class or of a scalar, which is named by its field function: `array(int32)`."""
    if isinstance(of, type):
        return Field("array", versions, element=Field("struct", struct=of), struct=of, **options)
    return Field("array", versions, element=of(), **options)


def struct(of: type[Struct], versions: str | None = None, **options: Any) -> Any:
    """One nested structure."""
    return Field("struct", versions, struct=of, **options)


class Schema:
    """What a class declares, for the code that works on declarations: the compiler, construct, JSON, the tests."""

    __slots__ = (
        "by_name",
        "constructs",
        "decoders",
        "encoders",
        "fields",
        "flexible",
        "get_values",
        "key",
        "kind",
        "name",
        "type",
        "versions",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        fields: list[Field],
        versions: str | None,
        flexible: str | None,
        key: int,
        type_: int,
    ) -> None:
        self.name = name
        self.kind = kind
        self.fields = tuple(fields)
        self.by_name = {field.name: field for field in fields}
        self.versions = Versions.parse(versions)
        self.flexible = Versions.parse(flexible)
        self.key = key
        self.type = type_
        self.decoders: dict[int, Decoder] = {}
        self.encoders: dict[int, Encoder] = {}
        self.constructs: dict[int, Any] = {}
        names = [field.name for field in fields]
        self.get_values: Callable[[Any], Any] = operator.attrgetter(*names) if names else lambda obj: ()


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Makes slotted classes out of field declarations.

    The field functions are deliberately no `field_specifiers` of the dataclass transform: a type checker would then ask
    for every field without `default=`, while here every field has a default.
    """

    SCHEMA: Schema

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        versions: str | None = None,
        flexible: str | None = None,
        key: int = -1,
        type: int = -1,
        kind: str = "",
    ) -> StructMeta:
        fields = [value for value in namespace.values() if isinstance(value, Field)]
        names = [attribute for attribute, value in namespace.items() if isinstance(value, Field)]
        for field, attribute in zip(fields, names, strict=True):
            if any(hasattr(base, attribute) for base in bases):
                raise TypeError(f"{name}.{attribute} would hide what every message has")
            field.bind(attribute)
            del namespace[attribute]
        namespace["__slots__"] = tuple(names)
        cls = super().__new__(mcs, name, bases, namespace)
        kind = kind or next((base.SCHEMA.kind for base in bases if isinstance(base, StructMeta)), "struct")
        cls.SCHEMA = Schema(name, kind, fields, versions, flexible, key, type)
        return cls


class Struct(metaclass=StructMeta, kind="struct"):
    """A nested structure."""

    SCHEMA: ClassVar[Schema]

    def __init__(self, **values: Any) -> None:
        # Generated on the first call, not with the class: a broker declares hundreds of classes and makes few objects.
        cls = type(self)
        cls.__init__ = _generate_init(cls.SCHEMA)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        get_values = self.SCHEMA.get_values
        return bool(get_values(self) == get_values(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = []
        for field in self.SCHEMA.fields:
            value = getattr(self, field.name)
            text = f"<{len(value)} bytes>" if isinstance(value, memoryview) else repr(value)
            shown.append(f"{field.name}={text}")
        return f"{self.SCHEMA.name}({', '.join(shown)})"


class Message(Struct):
    """A structure that stands on its own: it has versions, so it can be read and written."""

    @classmethod
    def decoder(cls, version: int) -> Decoder:
        """The compiled function (buf, pos, end) -> (object, position after it)."""
        schema = cls.SCHEMA
        decoder = schema.decoders.get(version)
        if decoder is None:
            if version not in schema.versions:
                raise ProtocolError(f"{schema.name} has no version {version}")
            from kafkapy.wire.compiler import compile_decoder

            decoder = schema.decoders[version] = compile_decoder(cls, version)
        return decoder

    @classmethod
    def encoder(cls, version: int) -> Encoder:
        """The compiled function (object, out, splits): appends to `out`; file slices among `records` go to `splits`."""
        schema = cls.SCHEMA
        encoder = schema.encoders.get(version)
        if encoder is None:
            if version not in schema.versions:
                raise EncodeError(f"{schema.name} has no version {version}")
            from kafkapy.wire.compiler import compile_encoder

            encoder = schema.encoders[version] = compile_encoder(cls, version)
        return encoder

    @classmethod
    def construct(cls, version: int) -> Any:
        """The same declaration in construct's types: parses to, and builds from, objects of this class."""
        schema = cls.SCHEMA
        if version not in schema.constructs:
            if version not in schema.versions:
                raise EncodeError(f"{schema.name} has no version {version}")
            from kafkapy.wire.constructs import make_construct

            schema.constructs[version] = make_construct(cls, version)
        return schema.constructs[version]

    @classmethod
    def decode(cls, buf: bytes | bytearray | memoryview, version: int, pos: int = 0) -> Self:
        """Read one object that starts at `pos`; bytes after it are tolerated."""
        message: Self = cls.decoder(version)(buf, pos, len(buf))[0]
        return message

    def encode(self, version: int) -> bytes:
        """The bytes of the object. It must not hold file slices: those only the sender of a response can place."""
        out = bytearray()
        splits: list[tuple[int, Any]] = []
        self.encoder(version)(self, out, splits)
        if splits:
            raise EncodeError(f"{self.SCHEMA.name} holds a file slice, which has no bytes")
        return bytes(out)

    def to_json(self, version: int) -> dict[str, Any]:
        """Plain JSON values under camelCase names: what the version carries, without tagged fields at their default."""
        from kafkapy.wire.json_form import to_json

        return to_json(self, version)

    @classmethod
    def from_json(cls, value: dict[str, Any], version: int) -> Self:
        """The reverse of `to_json`: what is absent has its default."""
        from kafkapy.wire.json_form import from_json

        message: Self = from_json(cls, value, version)
        return message


class Request(Message, kind="request"):
    """`class ProduceRequest(Request, key=0, versions="3-13", flexible="9+")`."""


class Response(Message, kind="response"):
    """The answer to the request of the same API key."""


class Record(Message, kind="record"):
    """A key or value that a coordinator or the controller writes to its log; `type` tells which one it is."""


class Data(Message, kind="data"):
    """A structure that travels inside a bytes field or a control record."""


def _generate_init(schema: Schema) -> Any:
    """An __init__ with one keyword per field, made from source: straight assignments are much faster than a loop."""
    scope: dict[str, Any] = {"UNSET": UNSET, "new": object.__new__}
    parameters = []
    lines = []
    for field in schema.fields:
        name = field.name
        if field.is_fresh:
            parameters.append(f"{name}=UNSET")
            lines += [f"if {name} is UNSET:", *("    " + line for line in _fresh(field, name, scope))]
        else:
            parameters.append(f"{name}={_constant(field.default, scope)}")
        lines.append(f"self.{name} = {name}")
    star = ", *, " if parameters else ""
    source = f"def __init__(self{star}{', '.join(parameters)}):\n    " + "\n    ".join(lines or ["pass"])
    exec(source, scope)
    return scope["__init__"]


def _fresh(field: Field, target: str, scope: dict[str, Any]) -> list[str]:
    """Lines that make a new default: a nested structure is made here and now, because a call would cost more than all else."""
    if field.struct is None or field.kind == "array":
        return [f"{target} = []"]
    lines = [f"{target} = new({_constant(field.struct, scope)})"]
    for inner in field.struct.SCHEMA.fields:
        inner_target = f"{target}.{inner.name}"
        if inner.is_fresh:
            lines += _fresh(inner, inner_target, scope)
        else:
            lines.append(f"{inner_target} = {_constant(inner.default, scope)}")
    return lines


def _constant(value: Any, scope: dict[str, Any]) -> str:
    """A name for an object in the generated code."""
    name = f"c{len(scope)}"
    scope[name] = value
    return name
