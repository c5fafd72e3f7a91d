"""What the generators of decoders and encoders have in common: lines, names, and facts about a field in a version."""

from __future__ import annotations

from typing import Any

from kafkapy.limits import DECODE_DEPTH_MAX
from kafkapy.wire.schema import Field, Message, Struct

# Struct codes of the fields whose size never changes, and those sizes.
FIXED_CODES = {
    "boolean": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
FIXED_SIZES = {
    "boolean": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint16": 2,
    "uint32": 4,
    "float64": 8,
    "uuid": 16,
}
# The code of the length in front of a value in the encoding that is not compact.
LENGTH_CODES = {"string": "h", "bytes": "i", "records": "i", "array": "i"}
CODE_SIZES = {"?": 1, "b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


class Source:
    """Collects lines of Python, and the objects that they name."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = version in cls.SCHEMA.flexible
        self.scope: dict[str, Any] = {}
        self._lines: list[str] = []
        self._indent = 2
        self._numbers = 0

    def emit(self, *lines: str) -> None:
        """Add lines at the current depth."""
        self._lines += ["    " * self._indent + line for line in lines]

    def indent(self) -> None:
        """The following lines stand one level deeper."""
        self._indent += 1
        # An array takes up to three levels of code: not null, the loop, and the tag section that it stands in.
        assert self._indent < 3 * DECODE_DEPTH_MAX, f"{self.cls.__name__} nests too deep"

    def dedent(self) -> None:
        """Back to the level before."""
        self._indent -= 1

    def new_name(self, prefix: str) -> str:
        """A local name that nothing else has."""
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def constant(self, name: str, value: Any) -> str:
        """Make an object known to the generated code under a name of its own."""
        assert self.scope.setdefault(name, value) is value
        return name

    def class_name(self, cls: type[Struct]) -> str:
        """The name of a declared class in the generated code; two modules may declare the same name."""
        return self.constant(f"{cls.__name__}_{id(cls):x}", cls)

    def literal(self, value: Any) -> str:
        """A default as it is written in the code."""
        return repr(value)

    def present(self, cls: type[Struct]) -> list[Field]:
        """The fields in the body of a structure in this version, in order."""
        return [f for f in cls.SCHEMA.fields if self.version in f.versions and not f.is_tagged(self.version)]

    def tagged(self, cls: type[Struct]) -> list[Field]:
        """The fields in the tag section of a structure in this version, by tag."""
        fields = [f for f in cls.SCHEMA.fields if self.version in f.versions and f.is_tagged(self.version)]
        assert self.flexible or not fields, f"{cls.__name__} has tagged fields in a version without tag sections"
        return sorted(fields, key=lambda f: f.tag or 0)

    def absent(self, cls: type[Struct]) -> list[Field]:
        """The fields that this version lacks."""
        return [f for f in cls.SCHEMA.fields if self.version not in f.versions]

    def is_compact(self, field: Field) -> bool:
        """Whether lengths are unsigned varints."""
        return self.flexible and field.flexible

    def is_nullable(self, field: Field) -> bool:
        """Whether null can stand for the field."""
        return self.version in field.nullable

    def min_size(self, field: Field, compact: bool) -> int:
        """The fewest bytes that a value of the field needs."""
        if field.kind in FIXED_SIZES:
            return FIXED_SIZES[field.kind]
        if field.kind == "struct":
            assert field.struct is not None
            if self.is_nullable(field):
                return 1
            tags = 1 if self.flexible else 0
            return tags + sum(self.min_size(f, self.is_compact(f)) for f in self.present(field.struct))
        return 1 if compact else CODE_SIZES[LENGTH_CODES[field.kind]]
