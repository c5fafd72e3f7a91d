"""Tables, stable columns, JSON and its schema from one declaration."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from kafkapy.cli.output import Column, Output, Shape, size_text

PART = Shape("A part", Column("number", "which one", "integer"))
SHAPE = Shape(
    "A thing",
    Column("name", "its name"),
    Column("count", "how many", "integer"),
    Column("size", "how large", "bytes"),
    Column("good", "whether", "boolean"),
    Column("peers", "who", "list"),
    Column("id", "its id", wide=True),
    parts=PART,
)
ROWS = [
    {"name": "a", "count": 12, "size": 2048, "good": True, "peers": [1, 2], "id": "x"},
    {"name": "long\tname", "count": 3, "size": None, "good": False, "peers": [], "id": None},
]


class Terminal(io.StringIO):
    """Standard output on a terminal."""

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, format: str, what: str, value: Any, terminal: bool = False) -> str:
    """What an Output prints."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    getattr(Output(SHAPE, format), what)(value)
    return stream.getvalue()


def test_columns_in_a_pipe_are_separated_by_tabs_and_have_no_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that cut and awk can rely on them; a tab in a value does not look like a column."""
    text = printed(monkeypatch, "text", "rows", ROWS)
    assert text == "a\t12\t2048\tyes\t1,2\nlong\\tname\t3\t-\tno\t-\n"


def test_wide_has_more_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are declared wide."""
    assert printed(monkeypatch, "wide", "rows", ROWS).splitlines()[0].endswith("\tx")


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings, numbers to the right, sizes for people."""
    assert printed(monkeypatch, "text", "rows", ROWS, terminal=True).splitlines() == [
        "NAME        COUNT     SIZE  GOOD  PEERS",
        "a              12  2.0 KiB  yes   1,2",
        "long\\tname      3        -  no    -",
    ]


def test_colours_are_used_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR is stronger than FORCE_COLOR, which is stronger than what the stream is."""
    from kafkapy.cli.terminal import colours

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert colours(Terminal()) and not colours(io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours(Terminal())


def test_json_is_one_document_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row lacks is null, as the schema promises."""
    found = json.loads(printed(monkeypatch, "json", "rows", [{"name": "a", "parts": [{"number": 1}]}]))
    assert found == [
        {
            "name": "a",
            "count": None,
            "size": None,
            "good": None,
            "peers": None,
            "id": None,
            "parts": [{"number": 1}],
        }
    ]


def test_a_document_is_names_and_values_and_then_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object, for people and for pipes."""
    row = {"name": "a", "count": 1, "parts": [{"number": 7}]}
    assert printed(monkeypatch, "text", "document", row) == "name\ta\ncount\t1\n\n7\n"
    assert printed(monkeypatch, "text", "document", row, terminal=True).splitlines() == [
        "NAME   a",
        "COUNT  1",
        "",
        "PARTS",
        "NUMBER",
        "     7",
    ]
    assert json.loads(printed(monkeypatch, "json", "document", row))["parts"] == [{"number": 7}]
    assert printed(monkeypatch, "text", "documents", [row, {"name": "b"}]).endswith("7\n\nname\tb\n")


def test_the_schema_names_every_column() -> None:
    """As JSON Schema."""
    schema = SHAPE.schema()
    assert list(schema["properties"]) == ["name", "count", "size", "good", "peers", "id", "parts"]
    assert schema["properties"]["parts"]["items"]["properties"]["number"]["description"] == "which one"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**30, "1.0 GiB"), (2**50, "1024.0 TiB")]
)
def test_sizes_are_readable(count: int, text: str) -> None:
    """In powers of 1024."""
    assert size_text(count) == text
