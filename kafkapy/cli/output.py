"""What readers print. One declaration of the columns yields the table, the stable columns for pipes, the JSON and its schema.

    ROWS = Shape("One topic.", Column("name", "its name"), Column("partitions", "how many", "integer"))

    @output(ROWS)                      adds --format; the command gets `out`
    def list_topics(..., out: Output):
        out.rows([{"name": "orders", "partitions": 3}])

On a terminal `text` is a table with headings and `wide` adds columns. Into a pipe go the same columns separated by tabs, without
headings, numbers in full. `json` is one document with everything, and `help` prints its schema.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from kafkapy.cli.terminal import styled

FORMATS = ("text", "wide", "json", "help")

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A value of a row: its JSON name, what it means, its type.

    Types: string, integer, number, boolean, list (of integers or strings), bytes (an integer that a person reads as a size).
    """

    name: str
    help: str
    type: str = "string"
    wide: bool = False


class Shape:
    """An object with these values, and with lists of objects in it."""

    def __init__(self, help: str, *columns: Column, **parts: Shape) -> None:
        self.help = help
        self.columns = columns
        self.parts = parts

    def schema(self) -> dict[str, Any]:
        """JSON Schema of one object."""
        properties: dict[str, Any] = {}
        for column in self.columns:
            properties[column.name] = {"type": _JSON_TYPES[column.type], "description": column.help}
        for name, part in self.parts.items():
            properties[name] = {"type": "array", "description": part.help, "items": part.schema()}
        return {"type": "object", "properties": properties, "required": list(properties)}


_JSON_TYPES: dict[str, Any] = {
    "string": ["string", "null"],
    "integer": ["integer", "null"],
    "number": ["number", "null"],
    "boolean": "boolean",
    "list": "array",
    "bytes": ["integer", "null"],
}


class Output:
    """Prints objects of one shape in the format that was asked for."""

    def __init__(self, shape: Shape, format: str) -> None:
        self._shape = shape
        self._format = format
        self._on_terminal = sys.stdout.isatty()

    def rows(self, rows: Sequence[Row]) -> None:
        """A list of objects: a table, or a JSON array."""
        if self._format == "json":
            _print_json([_complete(self._shape, row) for row in rows])
        else:
            self._table(self._shape, rows)

    def document(self, row: Row) -> None:
        """One object: names and values, then its parts as tables; or a JSON object."""
        if self._format == "json":
            _print_json(_complete(self._shape, row))
        else:
            self._document(row)

    def documents(self, rows: Sequence[Row]) -> None:
        """Several objects one after another; or a JSON array."""
        if self._format == "json":
            _print_json([_complete(self._shape, row) for row in rows])
            return
        for number, row in enumerate(rows):
            if number:
                print()
            self._document(row)

    def _document(self, row: Row) -> None:
        columns = [column for column in self._columns(self._shape) if column.name in row]
        width = max((len(column.name) for column in columns), default=0)
        for column in columns:
            text = self._cell(column, row[column.name])
            if self._on_terminal:
                print(f"{styled(_title(column.name).ljust(width), sys.stdout, bold=True)}  {text}")
            else:
                print(f"{column.name}\t{text}")
        for name, part in self._shape.parts.items():
            if not row.get(name):
                continue
            print()
            if self._on_terminal:
                print(styled(_title(name), sys.stdout, bold=True))
            self._table(part, row[name])

    def _columns(self, shape: Shape) -> list[Column]:
        return [column for column in shape.columns if self._format == "wide" or not column.wide]

    def _table(self, shape: Shape, rows: Sequence[Row]) -> None:
        columns = [column for column in self._columns(shape) if not rows or any(column.name in row for row in rows)]
        cells = [[self._cell(column, row.get(column.name)) for column in columns] for row in rows]
        if not self._on_terminal:
            for line in cells:
                print("\t".join(line))
            return
        titles = [_title(column.name) for column in columns]
        widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
        print(styled(_aligned(columns, titles, widths), sys.stdout, bold=True))
        for line in cells:
            print(_aligned(columns, line, widths))

    def _cell(self, column: Column, value: Any) -> str:
        if value is None or value == []:
            return "-"
        if value is True or value is False:
            return "yes" if value else "no"
        if column.type == "list":
            return ",".join(map(str, value))
        if column.type == "bytes" and self._on_terminal:
            return size_text(value)
        # A tab or a line break in a value must not look like another column or line.
        text = f"{value:.1f}" if isinstance(value, float) else str(value)
        return text if text.isprintable() else text.encode("unicode_escape").decode()


def output(shape: Shape) -> Callable[[Any], Any]:
    """Add `--format` to a command, which gets an `Output` named `out`."""

    def choose(ctx: click.Context, param: click.Parameter, value: str) -> Output:
        if value == "help":
            _print_json(
                {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": shape.help, **shape.schema()}
            )
            ctx.exit()
        return Output(shape, value)

    return click.option(
        "--format",
        "out",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        is_eager=True,
        callback=choose,
        help="How to print; 'help' prints the schema of the JSON.",
    )


def size_text(count: int) -> str:
    """12.3 MiB."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def _title(name: str) -> str:
    return name.upper().replace("_", "-")


def _aligned(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line of a table: numbers to the right."""
    padded = [
        cell.rjust(width) if column.type in ("integer", "number", "bytes") else cell.ljust(width)
        for column, cell, width in zip(columns, cells, widths, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _complete(shape: Shape, row: Row) -> dict[str, Any]:
    """The object in the order of its declaration; what a row lacks is null, as the schema promises."""
    document: dict[str, Any] = {column.name: row.get(column.name) for column in shape.columns}
    for name, part in shape.parts.items():
        document[name] = [_complete(part, item) for item in row.get(name, ())]
    return document


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
