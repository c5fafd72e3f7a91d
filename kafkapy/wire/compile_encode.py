"""Generates the source of an encoder.

Neighbouring values of fixed size wait in a run and are packed by one call, the first byte of the length that follows them and the
zero of an empty tag section in front of them included. Names in the generated code: `o` the object, `out` the bytearray, `splits`
as in `Message.encoder`, o1 o2... nested objects, a1... lists, s1... strings and bytes, n1... lengths, p_hiB... the packers.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from kafkapy.wire import primitives
from kafkapy.wire.schema import EncodeError, Field, Message, Struct
from kafkapy.wire.source import FIXED_CODES, LENGTH_CODES, Source

# What packing, measuring and encoding raise when an object holds something that its field cannot.
_ERRORS = (struct.error, AttributeError, TypeError, UnicodeEncodeError, OverflowError)

_HELPERS: dict[str, Any] = {
    "EncodeError": EncodeError,
    "ERRORS": _ERRORS,
    "BYTES": frozenset((bytes, bytearray, memoryview)),
    "pack": struct.pack,
    "write_uvarint": primitives.write_uvarint,
    "write_compact_string_length": primitives.write_compact_string_length,
}


class EncodeSource(Source):
    """The source of `encode(object, out, splits) -> None`."""

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self.scope.update(_HELPERS)
        self._out = "out"
        self._run: list[tuple[str, str]] = []

    def text(self) -> str:
        """The whole function."""
        self._struct(self.cls, "o")
        self._flush()
        name = self.cls.SCHEMA.name
        head = ["def encode(o, out, splits):", "    start = len(out)", "    try:"]
        tail = [
            "    except ERRORS as error:",
            "        del out[start:]",
            f"        raise EncodeError(f'{name} version {self.version}: {{error}}') from error",
        ]
        return "\n".join([*head, *(self._lines or ["        pass"]), *tail, ""])

    # Runs: neighbouring fixed-size values wait in `_run` until something of another kind comes.

    def _fixed(self, code: str, value: str = "") -> None:
        self._run.append((code, value))

    def _pack(self, run: list[tuple[str, str]]) -> str:
        codes = "".join(code for code, _ in run)
        if codes.strip("x") == "":
            return repr(bytes(len(codes)))
        pack = "p_" + codes.replace("?", "t")
        if pack not in self.scope:
            self.constant(pack, struct.Struct(">" + codes).pack)
        return f"{pack}({', '.join(value for code, value in run if code != 'x')})"

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        if len(run) == 1 and run[0][0] in ("x", "B"):
            self.emit(f"{self._out}.append({run[0][1] or '0'})")
        else:
            self.emit(f"{self._out} += {self._pack(run)}")

    def _compact_length(self, length: str, write: str) -> None:
        """Write the run and `length`, a compact length in a local variable; `write` is the helper for long ones."""
        run = self._run
        self.emit(f"if {length} < 128:")
        self.indent()
        self._run = [*run, ("B", length)]
        self._flush()
        self.dedent()
        self.emit("else:")
        self.indent()
        self._run = run
        self._flush()
        self.emit(f"{write}({self._out}, {length})")
        self.dedent()

    # Structures.

    def _struct(self, cls: type[Struct], var: str) -> None:
        for field in self.absent(cls):
            if not field.ignorable:
                self.emit(f"if {self._differs(field, f'{var}.{field.name}')}:")
                self.emit(f"    raise EncodeError('{cls.__name__}.{field.name} is not in version {self.version}')")
        for field in self.present(cls):
            self._field(field, f"{var}.{field.name}", self.is_compact(field))
        if self.flexible:
            self._tags(cls, var)

    def _differs(self, field: Field, value: str) -> str:
        """An expression: the value is not the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if field.kind == "array":
            return f"{value} is None or {value}"
        if field.kind == "struct":
            assert field.struct is not None
            parts = [self._differs(inner, f"{value}.{inner.name}") for inner in field.struct.SCHEMA.fields]
            return " or ".join([f"{value} is None", *parts])
        if field.kind == "float64" and math.isnan(field.default):
            return f"{value} == {value}"
        return f"{value} != {self.literal(field.default)}"

    def _tags(self, cls: type[Struct], var: str) -> None:
        fields = self.tagged(cls)
        if not fields:
            self._fixed("x")
            return
        self._flush()
        tags, out = self.new_name("t"), self._out
        differs = " or ".join(f"({self._differs(field, f'{var}.{field.name}')})" for field in fields)
        self.emit(f"if not ({differs}):", f"    {out}.append(0)", "else:")
        self.indent()
        self.emit(f"{tags} = []")
        for field in fields:
            self.emit(f"if {self._differs(field, f'{var}.{field.name}')}:")
            self.indent()
            self._out = content = self.new_name("b")
            self.emit(f"{content} = bytearray()")
            self._field(field, f"{var}.{field.name}", self.is_compact(field), in_tag=True)
            self._flush()
            self.emit(f"{tags}.append(({field.tag}, {content}))")
            self._out = out
            self.dedent()
        tag, content = self.new_name("k"), self.new_name("b")
        self.emit(
            f"write_uvarint({out}, len({tags}))",
            f"for {tag}, {content} in {tags}:",
            f"    write_uvarint({out}, {tag})",
            f"    write_uvarint({out}, len({content}))",
            f"    {out} += {content}",
        )
        self.dedent()

    # Fields.

    def _field(self, field: Field, value: str, compact: bool, in_tag: bool = False) -> None:
        if field.kind == "uuid":
            self.emit(f"if len({value}) != 16:")
            self.emit(f"    raise EncodeError('{field.name} of {self.cls.__name__} must have 16 bytes')")
        if field.kind in FIXED_CODES:
            self._fixed(FIXED_CODES[field.kind], value)
        elif field.kind == "struct":
            self._nested(field, value, in_tag)
        elif field.kind == "array":
            self._array(field, value, compact)
        else:
            self._sized(field, value, compact, in_tag)

    def _nested(self, field: Field, value: str, in_tag: bool) -> None:
        assert field.struct is not None
        inner = self.new_name("o")
        self.emit(f"{inner} = {value}")
        if not self.is_nullable(field):
            self._struct(field.struct, inner)
            return
        self._flush()
        self.emit(f"if {inner} is None:", f"    {self._out}.append({0 if in_tag else 255})", "else:")
        self.indent()
        self._fixed("B", "1")
        self._struct(field.struct, inner)
        self._flush()
        self.dedent()

    def _sized(self, field: Field, value: str, compact: bool, in_tag: bool) -> None:
        """A string, bytes or records: a length, then the bytes."""
        content, length = self.new_name("s"), self.new_name("n")
        encode = ".encode()" if field.kind == "string" else ""
        size = (
            f"{content}.size if type({content}) not in BYTES else len({content})" if not encode else f"len({content})"
        )
        plus_one = " + 1" if compact else ""
        plain = [f"{content} = {value}{encode}", f"{length} = {f'({size})' if plus_one else size}{plus_one}"]
        if field.kind == "bytes":
            plain = [f"{content} = {value}", f"{length} = len({content}){plus_one}"]
        if self.is_nullable(field):
            null = [f"{content} = b''", f"{length} = {0 if compact else -1}"]
            self.emit(f"if {value} is None:", *("    " + line for line in null))
            self.emit("else:", *("    " + line for line in plain))
        else:
            self.emit(*plain)
        if compact:
            self._compact_length(length, "write_compact_string_length" if field.kind == "string" else "write_uvarint")
        else:
            self._fixed(LENGTH_CODES[field.kind], length)
            self._flush()
        if field.kind != "records":
            self.emit(f"{self._out} += {content}")
            return
        assert not in_tag, "records in a tag section cannot be sent from a file"
        self.emit(
            f"if type({content}) in BYTES:",
            f"    {self._out} += {content}",
            "else:",
            f"    splits.append((len({self._out}), {content}))",
        )

    # Arrays.

    def _array(self, field: Field, value: str, compact: bool) -> None:
        element = field.element
        assert element is not None
        items, length = self.new_name("a"), self.new_name("n")
        self.emit(f"{items} = {value}")
        if self.is_nullable(field):
            # No items to write are the same as null once the length is known.
            self.emit(f"if {items} is None:", f"    {items} = ()", f"    {length} = {0 if compact else -1}", "else:")
            self.emit(f"    {length} = len({items}){' + 1' if compact else ''}")
        else:
            self.emit(f"{length} = len({items}){' + 1' if compact else ''}")
        if compact:
            self._compact_length(length, "write_uvarint")
        else:
            self._fixed("i", length)
            self._flush()
        if element.kind in FIXED_CODES and element.kind != "uuid":
            code = FIXED_CODES[element.kind]
            self.emit(f"if {items}:", f"    {self._out} += pack(f'>{{len({items})}}{code}', *{items})")
            return
        item = self.new_name("o")
        self.emit(f"for {item} in {items}:")
        self.indent()
        if element.kind == "struct":
            assert element.struct is not None
            before = len(self._lines)
            self._struct(element.struct, item)
            self._flush()
            if len(self._lines) == before:
                self.emit("pass")
        else:
            self._field(element, item, compact)
            self._flush()
        self.dedent()
