"""Java's .properties format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.config.properties import parse_properties
from kafkapy.config.validators import ConfigException


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t=\t1 ", {"a": "1 "}),
        ("  a=1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = = b", {"a": "= b"}),
        ("a:=b", {"a": "=b"}),
        ("# no\n! no\n\n \t\na=1", {"a": "1"}),
        ("a=1 # part of it", {"a": "1 # part of it"}),
        ("a=1\\\n   ,2\\\n,3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("# no \\\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\u20AC", {"a": "é€"}),
        ("a=\\uD83D\\uDE00", {"a": "\U0001f600"}),
        ("a=1\na=2", {"a": "2"}),
        ("=x", {"": "x"}),
        ("", {}),
    ],
)
def test_lines_become_properties(text: str, expected: dict[str, str]) -> None:
    """As java.util.Properties reads them."""
    assert {key: value.value for key, value in parse_properties(text).items()} == expected


def test_each_property_knows_its_line() -> None:
    """A property that goes on over several lines is where it begins."""
    properties = parse_properties("# head\n\na=1\\\n2\nb=3\n")
    assert {key: value.line for key, value in properties.items()} == {"a": 3, "b": 5}


@pytest.mark.parametrize("text", ["a=1\nb=\\u12", "a=1\nb=\\u12G4", "a=1\n\\u=2"])
def test_a_broken_escape_is_named_with_its_line(text: str) -> None:
    """Four hexadecimal digits or an error."""
    with pytest.raises(ConfigException, match="line 2"):
        parse_properties(text)


def escaped(text: str) -> str:
    """A text with everything protected, as java.util.Properties would store it."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2], 'big'):04x}" for i in range(0, len(units), 2))


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_what_was_stored_is_read_back(properties: dict[str, str]) -> None:
    """Any keys and values survive if they are escaped."""
    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in properties.items())
    assert {key: value.value for key, value in parse_properties(text).items()} == properties


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No file escapes as another exception."""
    try:
        parse_properties(text)
    except ConfigException as error:
        assert "line" in str(error)
