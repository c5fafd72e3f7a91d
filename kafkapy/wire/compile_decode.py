"""Generates the source of a decoder.

Why the generated code is safe with few checks: the position only ever grows (a negative length is refused where it is read), an
overrun of the buffer raises inside it, and an overrun of `end` is found by one comparison after the last field. What would
cost memory before that is checked where it stands: array counts, long byte strings, records.

Names in the generated code: `buf`, `pos`, `end` as given, `view` a memoryview of buf, `left` the elements that may still
come, o1 o2... objects, a1... lists, n1... lengths and counts, u_hiB... the unpackers of runs of fixed fields.
"""

from __future__ import annotations

import struct
from typing import Any

from kafkapy.errors import ProtocolError
from kafkapy.limits import DECODE_ELEMENTS_MAX
from kafkapy.wire import primitives
from kafkapy.wire.schema import Field, Message, Struct
from kafkapy.wire.source import CODE_SIZES, FIXED_CODES, FIXED_SIZES, LENGTH_CODES, Source

# What indexing, unpacking and decoding raise when the bytes are not what they should be.
_ERRORS = (struct.error, IndexError, UnicodeDecodeError, OverflowError)

_HELPERS: dict[str, Any] = {
    "ProtocolError": ProtocolError,
    "ERRORS": _ERRORS,
    "new": object.__new__,
    "short": primitives.UNPACK_BYTES,
    "short_compact": primitives.UNPACK_COMPACT_BYTES,
    "unpack_from": struct.unpack_from,
    "read_string": primitives.read_string,
    "read_bytes": primitives.read_bytes,
    "read_compact_string": primitives.read_compact_string,
    "read_compact_bytes": primitives.read_compact_bytes,
    "read_compact_nullable_string": primitives.read_compact_nullable_string,
    "read_compact_nullable_bytes": primitives.read_compact_nullable_bytes,
    "rest": primitives.read_uvarint_rest,
    "skip_tags": primitives.skip_tags,
}


class DecodeSource(Source):
    """The source of `decode(buf, pos, end) -> (object, position after it)`."""

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self.scope.update(_HELPERS)
        self._run: list[tuple[str, str]] = []
        self._has_records = False
        self._has_arrays = False

    def text(self) -> str:
        """The whole function."""
        self._struct(self.cls, "o")
        self._flush()
        name = self.cls.SCHEMA.name
        head = ["def decode(buf, pos, end):", "    try:"]
        if self._has_records:
            head.append("        view = buf if type(buf) is memoryview else memoryview(buf)")
        if self._has_arrays:
            head.append(f"        left = {DECODE_ELEMENTS_MAX}")
        tail = [
            "    except ERRORS as error:",
            f"        raise ProtocolError(f'{name} version {self.version}: {{error}}') from error",
            "    if pos > end:",
            f"        raise ProtocolError(f'{name} version {self.version} is cut short by {{pos - end}} bytes')",
            "    return o, pos",
        ]
        return "\n".join([*head, *self._lines, *tail, ""])

    # Runs: neighbouring fixed-size values wait in `_run` until something of another kind comes.

    def _fixed(self, code: str, target: str) -> None:
        self._run.append((code, target))

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        if len(run) == 1 and run[0][0] in ("B", "?"):
            code, target = run[0]
            self.emit(f"{target} = buf[pos]" + (" != 0" if code == "?" else ""), "pos += 1")
            return
        codes = "".join(code for code, _ in run)
        unpack = "u_" + codes.replace("?", "t")
        if unpack not in self.scope:
            self.constant(unpack, struct.Struct(">" + codes).unpack_from)
        targets = ", ".join(target for _, target in run)
        self.emit(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buf, pos)")
        self.emit(f"pos += {sum(CODE_SIZES[code] for code, _ in run)}")

    # Structures.

    def _struct(self, cls: type[Struct], var: str) -> None:
        """Make an object and read its fields. What is still waiting in the run is read together with its first fields."""
        self.emit(f"{var} = new({self.class_name(cls)})")
        tagged = self.tagged(cls)
        self._defaults(var, self.absent(cls) + tagged)
        for field in self.present(cls):
            self._field(field, f"{var}.{field.name}", self.is_compact(field))
        if self.flexible:
            self._tags(tagged, var)

    def _defaults(self, var: str, fields: list[Field]) -> None:
        same: dict[str, list[str]] = {}
        for field in fields:
            target = f"{var}.{field.name}"
            if not field.is_fresh:
                same.setdefault(self.literal(field.default), []).append(target)
            elif field.kind == "array":
                self.emit(f"{target} = []")
            else:
                assert field.struct is not None
                inner = self.new_name("o")
                self.emit(f"{target} = {inner} = new({self.class_name(field.struct)})")
                self._defaults(inner, list(field.struct.SCHEMA.fields))
        for value, targets in same.items():
            self.emit(f"{' = '.join(targets)} = {value}")

    def _tags(self, fields: list[Field], var: str) -> None:
        count = self.new_name("n")
        self._fixed("B", count)
        self._flush()
        self.emit(f"if {count}:")
        self.indent()
        if not fields:
            self.emit(f"pos = skip_tags(buf, pos, end, {count})")
            self.dedent()
            return
        after, tag = self.new_name("e"), self.new_name("k")
        self._rest(count)
        self.emit(f"while {count}:")
        self.indent()
        self.emit(f"{count} -= 1", f"{tag} = buf[pos]", "pos += 1")
        self._rest(tag)
        self.emit(f"{after} = buf[pos]", "pos += 1")
        self._rest(after)
        self.emit(f"{after} += pos", f"if {after} > end:")
        self.emit(f"    raise ProtocolError('a tagged field of {self.cls.__name__} ends after the message')")
        branch = "if"
        for field in fields:
            self.emit(f"{branch} {tag} == {field.tag}:")
            self.indent()
            self._field(field, f"{var}.{field.name}", self.is_compact(field), in_tag=True)
            self._flush()
            self.dedent()
            branch = "elif"
        self.emit("else:", f"    pos = {after}", f"if pos != {after}:")
        self.emit(f"    raise ProtocolError(f'tag {{{tag}}} of {self.cls.__name__} has another size than its content')")
        self.dedent()
        self.dedent()

    def _rest(self, var: str) -> None:
        self.emit(f"if {var} > 127:", f"    {var}, pos = rest(buf, pos, {var})")

    # Fields.

    def _field(self, field: Field, target: str, compact: bool, in_tag: bool = False) -> None:
        if field.kind in FIXED_CODES:
            self._fixed(FIXED_CODES[field.kind], target)
        elif field.kind == "struct":
            self._nested(field, target, in_tag)
        elif field.kind == "array":
            self._array(field, target, compact)
        else:
            length = self.new_name("n")
            self._fixed("B" if compact else LENGTH_CODES[field.kind], length)
            self._flush()
            if field.kind == "records":
                self._records(field, target, length, compact)
            else:
                self._short_or_long(field, target, length, compact)

    def _nested(self, field: Field, target: str, in_tag: bool) -> None:
        assert field.struct is not None
        inner = self.new_name("o")
        if not self.is_nullable(field):
            self._struct(field.struct, inner)
            self.emit(f"{target} = {inner}")
            return
        mark = self.new_name("n")
        self._fixed("b", mark)
        self._flush()
        # In front of a structure stands -1 for null; in the tag section it is a compact length's 0.
        self.emit(f"if {mark} {'==' if in_tag else '<'} 0:", f"    {target} = None", "else:")
        self.indent()
        self._struct(field.struct, inner)
        self._flush()
        self.emit(f"{target} = {inner}")
        self.dedent()

    def _null_error(self, field: Field) -> str:
        return f"raise ProtocolError('{field.name or 'an element'} of {self.cls.__name__} is null')"

    def _short_or_long(self, field: Field, target: str, length: str, compact: bool) -> None:
        """A string or bytes: one table lookup when short, one call when not."""
        decode = ".decode()" if field.kind == "string" else ""
        name = "string" if field.kind == "string" else "bytes"
        nullable = self.is_nullable(field)
        if compact:
            branch = "if"
            if nullable:
                self.emit(f"if not {length}:", f"    {target} = None")
                branch, name = "elif", f"nullable_{name}"
            self.emit(
                f"{branch} {length} < 128:",
                f"    {target} = short_compact[{length}](buf, pos)[0]{decode}",
                f"    pos += {length} - 1",
                "else:",
                f"    {target}, pos = read_compact_{name}(buf, pos, end, {length})",
            )
            return
        self.emit(
            f"if 0 <= {length} < 127:",
            f"    {target} = short[{length}](buf, pos)[0]{decode}",
            f"    pos += {length}",
            f"elif {length} < 0:",
            f"    {target} = None" if nullable else f"    {self._null_error(field)}",
            "else:",
            f"    {target}, pos = read_{name}(buf, pos, end, {length})",
        )

    def _if_null(self, field: Field, target: str, length: str, compact: bool) -> None:
        """Leave the code at the depth where the value is not null and `length` is its plain length."""
        nullable = self.is_nullable(field)
        if compact:
            self._rest(length)
        self.emit(f"if {length} {'== 0' if compact else '< 0'}:")
        self.emit(f"    {target} = None" if nullable else f"    {self._null_error(field)}")
        if nullable:
            self.emit("else:")
            self.indent()
        if compact:
            self.emit(f"{length} -= 1")

    def _records(self, field: Field, target: str, length: str, compact: bool) -> None:
        self._has_records = True
        self._if_null(field, target, length, compact)
        self.emit(
            f"{length} += pos",
            f"if {length} > end:",
            f"    raise ProtocolError('{field.name} of {self.cls.__name__} ends after the message')",
            f"{target} = view[pos:{length}]",
            f"pos = {length}",
        )
        if self.is_nullable(field):
            self.dedent()

    # Arrays.

    def _array(self, field: Field, target: str, compact: bool) -> None:
        self._has_arrays = True
        element = field.element
        assert element is not None
        count = self.new_name("n")
        self._fixed("B" if compact else "i", count)
        self._flush()
        self._if_null(field, target, count, compact)
        least = self.min_size(element, compact)
        bytes_needed = f"{count} * {least}" if least != 1 else count
        too_many = f"{bytes_needed} > end - pos or left < 0" if least else "left < 0"
        self.emit(
            f"left -= {count}",
            f"if {too_many}:",
            f"    raise ProtocolError(f'{field.name} of {self.cls.__name__} cannot have {{{count}}} elements')",
        )
        if element.kind == "uuid":
            self._uuids(target, count)
        elif element.kind in FIXED_CODES:
            self._numbers_array(element, target, count)
        else:
            self._loop(element, target, count, compact)
        if self.is_nullable(field):
            self.dedent()

    def _numbers_array(self, element: Field, target: str, count: str) -> None:
        code = FIXED_CODES[element.kind]
        table = f"array_{element.kind}"
        if table not in self.scope:
            self.constant(table, primitives.array_unpackers(code))
        size = FIXED_SIZES[element.kind]
        self.emit(
            f"if {count} < {len(self.scope[table])}:",
            f"    {target} = list({table}[{count}](buf, pos))",
            "else:",
            f"    {target} = list(unpack_from(f'>{{{count}}}{code}', buf, pos))",
            f"pos += {count} * {size}" if size > 1 else f"pos += {count}",
        )

    def _uuids(self, target: str, count: str) -> None:
        after = self.new_name("e")
        self.emit(
            f"{after} = pos + {count} * 16",
            f"{target} = [bytes(buf[i:i + 16]) for i in range(pos, {after}, 16)]",
            f"pos = {after}",
        )

    def _loop(self, element: Field, target: str, count: str, compact: bool) -> None:
        items, item = self.new_name("a"), self.new_name("o")
        self.emit(f"{target} = {items} = []", f"while {count}:")
        self.indent()
        self.emit(f"{count} -= 1")
        if element.kind == "struct":
            assert element.struct is not None
            self._struct(element.struct, item)
        else:
            self._field(element, item, compact)
        self._flush()
        self.emit(f"{items}.append({item})")
        self.dedent()
