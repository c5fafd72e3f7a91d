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


def _encode_error(obj: Any, version: int, error: Exception) -> EncodeError:
    """Imported only when something went wrong."""
    from kafkapy.wire.blame import encode_error

    return encode_error(obj, version, error)


_HELPERS: dict[str, Any] = {
    "encode_error": _encode_error,
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
        head = ["def encode(o, out, splits):", "    start = len(out)", "    try:"]
        tail = [
            "    except EncodeError:",
            "        del out[start:]",
            "        raise",
            "    except ERRORS as error:",
            "        del out[start:]",
            f"        raise encode_error(o, {self.version}, error) from error",
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

    def _branch(self, run: list[tuple[str, str]]) -> None:
        """Write a run in a branch of its own. Values that several branches may continue with are packed in each of them."""
        self.indent()
        self._run = run
        self._flush()
        self.dedent()

    def _length(self, kind: str, length: str, compact: bool) -> None:
        """Write the run, and a local variable that holds a length (+ 1 if it is compact)."""
        if not compact:
            self._fixed(LENGTH_CODES[kind], length)
            self._flush()
            return
        run = self._run
        write = "write_compact_string_length" if kind == "string" else "write_uvarint"
        self.emit(f"if {length} < 128:")
        self._branch([*run, ("B", length)])
        self.emit("else:")
        self._branch(run)
        self.emit(f"    {write}({self._out}, {length})")

    def _null(self, kind: str, compact: bool) -> None:
        """Write the run and a null in a branch; the run stays for the branch in which the value is not null."""
        run = self._run
        self._branch([*run, ("x", "") if compact else (LENGTH_CODES[kind], "-1")])
        self._run = run

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
            inner = self.new_name("o")
            parts = [self._differs(part, f"{inner}.{part.name}") for part in field.struct.SCHEMA.fields]
            return " or ".join([f"({inner} := {value}) is None", *parts])
        if field.kind == "float64" and math.isnan(field.default):
            return f"{value} == {value}"
        return f"{value} != {self.literal(field.default)}"

    def _tags(self, cls: type[Struct], var: str) -> None:
        fields = self.tagged(cls)
        if not fields:
            self._fixed("x")
            return
        run, out = self._run, self._out
        differences = [self._differs(field, f"{var}.{field.name}") for field in fields]
        self.emit(f"if not ({' or '.join(differences)}):")
        self._branch([*run, ("x", "")])
        self.emit("else:")
        self._branch(run)
        self.indent()
        tags = self.new_name("t")
        self.emit(f"{tags} = []")
        for field, differs in zip(fields, differences, strict=True):
            self.emit(f"if {differs}:")
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
            self._sized(field, value, compact)

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

    def _sized(self, field: Field, value: str, compact: bool) -> None:
        """A string, bytes or records: a length, then the bytes."""
        content, length = self.new_name("s"), self.new_name("n")
        plus_one = " + 1" if compact else ""
        nullable = self.is_nullable(field)
        if nullable:
            self.emit(f"{content} = {value}", f"if {content} is None:")
            self._null(field.kind, compact)
            self.emit("else:")
            self.indent()
            value = content
        self.emit(f"{content} = {value}{'.encode()' if field.kind == 'string' else ''}")
        if field.kind == "records":
            self.emit(
                f"if type({content}) in BYTES:",
                f"    {length} = len({content}){plus_one}",
                "else:",
                f"    {length} = {content}.size{plus_one}",
            )
        else:
            self.emit(f"{length} = len({content}){plus_one}")
        self._length(field.kind, length, compact)
        if field.kind == "records":
            assert self._out == "out", "records in a tag section could not be sent from a file"
            self.emit(
                f"if type({content}) in BYTES:",
                f"    out += {content}",
                "else:",
                f"    splits.append((len(out), {content}))",
            )
        else:
            self.emit(f"{self._out} += {content}")
        if nullable:
            self.dedent()

    # Arrays.

    def _array(self, field: Field, value: str, compact: bool) -> None:
        element = field.element
        assert element is not None
        items, length = self.new_name("a"), self.new_name("n")
        self.emit(f"{items} = {value}")
        nullable = self.is_nullable(field)
        if nullable:
            self.emit(f"if {items} is None:")
            self._null("array", compact)
            self.emit("else:")
            self.indent()
        self.emit(f"{length} = len({items}){' + 1' if compact else ''}")
        self._length("array", length, compact)
        if element.kind in FIXED_CODES and element.kind != "uuid":
            self.emit(f"if {items}:")
            self.emit(f"    {self._out} += pack(f'>{{len({items})}}{FIXED_CODES[element.kind]}', *{items})")
        else:
            self._loop(element, items, compact)
        if nullable:
            self.dedent()

    def _loop(self, element: Field, items: str, compact: bool) -> None:
        item = self.new_name("o")
        self.emit(f"for {item} in {items}:")
        self.indent()
        before = len(self._lines)
        if element.kind == "struct":
            assert element.struct is not None
            self._struct(element.struct, item)
        else:
            self._field(element, item, compact)
        self._flush()
        if len(self._lines) == before:
            self.emit("pass")
        self.dedent()
