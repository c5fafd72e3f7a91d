"""How texts become values, with Kafka's messages where they cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.config.broker.storage import CLEANUP_POLICY, COMPRESSION_TYPE, GZIP_LEVEL
from kafkapy.config.definitions import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
    ConfigKey,
    ConfigType,
    Value,
    format_value,
    parse_type,
)
from kafkapy.config.validators import (
    ConfigException,
    ListOf,
    NonEmpty,
    NonNull,
    OneOfAnyCase,
    Validator,
    at_least,
    between,
    java_text,
)

PARSED: list[tuple[ConfigType, str, Value]] = [
    (INT, " 3 ", 3),
    (INT, "+3", 3),
    (INT, "-2147483648", -(2**31)),
    (LONG, "9223372036854775807", 2**63 - 1),
    (SHORT, "32767", 32767),
    (BOOLEAN, " TRUE ", True),
    (BOOLEAN, "false", False),
    (DOUBLE, "0x1p3", 8.0),
    (DOUBLE, ".5", 0.5),
    (DOUBLE, "1.5f", 1.5),
    (DOUBLE, "-Infinity", float("-inf")),
    (DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
    (STRING, " a b ", "a b"),
    (PASSWORD, " secret ", "secret"),
    (CLASS, "a.b.C", "a.b.C"),
    (LIST, "a , b,c", ("a", "b", "c")),
    (LIST, " ", ()),
    (LIST, "a,,b", ("a", "", "b")),
]

REFUSED = [
    (INT, "abc", "Not a number of type INT"),
    (INT, "2147483648", "Not a number of type INT"),
    (INT, "1_000", "Not a number of type INT"),
    (INT, "3L", "Not a number of type INT"),
    (INT, "", "Not a number of type INT"),
    (SHORT, "99999", "Not a number of type SHORT"),
    (LONG, "1.0", "Not a number of type LONG"),
    (DOUBLE, "x", "Not a number of type DOUBLE"),
    (DOUBLE, "nan", "Not a number of type DOUBLE"),
    (DOUBLE, "1_0.0", "Not a number of type DOUBLE"),
    (DOUBLE, "", "Not a number of type DOUBLE"),
    (BOOLEAN, "yes", "Expected value to be either true or false"),
]

CHECKED: list[tuple[ConfigType, Validator, str, str]] = [
    (INT, at_least(5), "4", "Invalid value 4 for configuration x: Value must be at least 5"),
    (DOUBLE, between(0, 1), "1.5", "Invalid value 1.5 for configuration x: Value must be no more than 1"),
    (INT, GZIP_LEVEL, "0", "Invalid value 0 for configuration x: Value must be between 1 and 9 or equal to -1"),
    (
        STRING,
        COMPRESSION_TYPE,
        "none",
        "Invalid value none for configuration x: "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (LIST, CLEANUP_POLICY, "foo", "Invalid value foo for configuration x: String must be one of: compact, delete"),
    (LIST, CLEANUP_POLICY, "delete,,compact", "Configuration 'x' values must not be empty."),
    (LIST, ListOf(), "", "Configuration 'x' must not be empty. Valid values include: any non-empty value"),
    (
        LIST,
        ListOf("broker", "controller"),
        "",
        "Configuration 'x' must not be empty. Valid values include: [broker, controller]",
    ),
    (STRING, NonEmpty(), "", "Invalid value  for configuration x: String must be non-empty"),
    (
        STRING,
        OneOfAnyCase("A", "B"),
        "c",
        "Invalid value c for configuration x: String must be one of (case insensitive): A, B",
    ),
]


def key_of(kind: ConfigType, validator: Validator | None = None) -> ConfigKey:
    """A key by the name of x."""
    return ConfigKey("x", kind, None, READ_ONLY, "A key.", validator)


@pytest.mark.parametrize(("kind", "text", "value"), PARSED)
def test_texts_become_values(kind: ConfigType, text: str, value: Value) -> None:
    """Blanks around a value do not count, and Java's own notations are understood."""
    parsed = key_of(kind).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(("kind", "text", "reason"), REFUSED)
def test_texts_of_the_wrong_type_are_refused(kind: ConfigType, text: str, reason: str) -> None:
    """The message is Kafka's, with the text as it was given."""
    with pytest.raises(ConfigException) as caught:
        key_of(kind).parse(text)
    assert str(caught.value) == f"Invalid value {text} for configuration x: {reason}"
    assert caught.value.name == "x"


@pytest.mark.parametrize(("kind", "validator", "text", "message"), CHECKED)
def test_values_out_of_bounds_are_refused(kind: ConfigType, validator: Validator, text: str, message: str) -> None:
    """Each kind of check speaks as Kafka's does."""
    with pytest.raises(ConfigException) as caught:
        key_of(kind, validator).parse(text)
    assert str(caught.value) == message


def test_a_list_that_names_a_value_twice_has_it_once() -> None:
    """Kafka drops duplicates from the lists that it checks, and keeps the order."""
    assert key_of(LIST, CLEANUP_POLICY).parse("delete,compact,delete") == ("delete", "compact")
    assert key_of(LIST).parse("b,a,b") == ("b", "a", "b")


@pytest.mark.parametrize("validator", [at_least(0), OneOfAnyCase("A"), ListOf(), NonNull()])
def test_nothing_is_refused_where_a_value_is_needed(validator: Validator) -> None:
    """A null is no value for most checks."""
    with pytest.raises(ConfigException):
        validator.check("x", None)


def test_null_stays_null() -> None:
    """A key without a check takes a null, and shows none."""
    assert parse_type("x", None, INT) is None
    assert format_value(None) is None
    NonEmpty().check("x", None)
    ListOf(null=True).check("x", None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1e-3, "0.001"),
        (1e-4, "1.0E-4"),
        (123456789.125, "1.23456789125E8"),
        (1e300, "1.0E300"),
        (0.0, "0.0"),
        (-1.5e21, "-1.5E21"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (True, "true"),
        (None, "null"),
        (("a", "b"), "[a, b]"),
    ],
)
def test_values_print_as_in_java(value: object, text: str) -> None:
    """Clients see the texts that a JVM would have written."""
    assert java_text(value) == text


@given(st.floats(allow_nan=False))
def test_printed_numbers_read_back_as_the_same(value: float) -> None:
    """Whatever is shown can be set again."""
    assert parse_type("x", java_text(value), DOUBLE) == value


@given(st.text(max_size=30), st.sampled_from([BOOLEAN, INT, SHORT, LONG, DOUBLE, LIST, STRING]))
def test_any_text_is_a_value_or_refused_in_kafkas_words(text: str, kind: ConfigType) -> None:
    """No text escapes as another exception."""
    try:
        parse_type("x", text, kind)
    except ConfigException as error:
        assert str(error).startswith("Invalid value ")


def test_secrets_are_known_by_their_type() -> None:
    """A password is sensitive, and nothing else is."""
    assert key_of(PASSWORD).sensitive
    assert not key_of(STRING).sensitive
