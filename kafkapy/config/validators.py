"""The checks that a parsed configuration value must pass, with the sentences in which Kafka refuses it.

A validator is a small object: it costs nothing until a value is given, and prints itself as the documentation shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ConfigException(Exception):
    """A configuration is refused: `name` is the key at fault if it is a single one, `str()` the whole sentence."""

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name

    @classmethod
    def invalid(cls, name: str, value: object, reason: str | None = None) -> ConfigException:
        """The sentence that Kafka has for a value of one key."""
        return cls(
            f"Invalid value {java_text(value)} for configuration {name}" + (f": {reason}" if reason else ""), name
        )


class Validator:
    """Anything that `ConfigKey.validator` may be. `distinct`: a list loses its duplicates before it is checked."""

    __slots__ = ()
    distinct = False

    def check(self, name: str, value: Any) -> None:
        """Raise ConfigException if `value` is not allowed for the key `name`."""
        raise ConfigException.invalid(name, value)


class Range(Validator):
    """A number between two bounds, both inclusive, either absent."""

    __slots__ = ("high", "low")

    def __init__(self, low: float | None, high: float | None = None) -> None:
        self.low = low
        self.high = high

    def check(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigException.invalid(name, value, "Value must be non-null")
        if self.low is not None and value < self.low:
            raise ConfigException.invalid(name, value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise ConfigException.invalid(name, value, f"Value must be no more than {self.high}")

    def __str__(self) -> str:
        return f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"


class OneOf(Validator):
    """A text out of a few."""

    __slots__ = ("allowed",)

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def check(self, name: str, value: Any) -> None:
        if value not in self.allowed:
            raise ConfigException.invalid(name, value, "String must be one of: " + ", ".join(self.allowed))

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]"


class OneOfAnyCase(OneOf):
    """A text out of a few, in any mixture of upper and lower case."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        if value is None or value.upper() not in self.allowed:
            reason = "String must be one of (case insensitive): " + ", ".join(self.allowed)
            raise ConfigException.invalid(name, value, reason)

    def __str__(self) -> str:
        return f"(case insensitive) {super().__str__()}"


class ListOf(Validator):
    """A list without empty items, of the allowed texts if there are any; empty or absent only where that is said."""

    __slots__ = ("allowed", "empty", "null")
    distinct = True

    def __init__(self, *allowed: str, empty: bool = False, null: bool = False) -> None:
        self.allowed = allowed
        self.empty = empty
        self.null = null

    def check(self, name: str, value: Any) -> None:
        if value is None:
            if not self.null:
                raise ConfigException(f"Configuration '{name}' values must not be null.", name)
            return
        if not value and not self.empty:
            valid = str(self) or "any non-empty value"
            raise ConfigException(f"Configuration '{name}' must not be empty. Valid values include: {valid}", name)
        for item in value:
            if not item:
                raise ConfigException(f"Configuration '{name}' values must not be empty.", name)
            if self.allowed and item not in self.allowed:
                raise ConfigException.invalid(name, item, "String must be one of: " + ", ".join(self.allowed))

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]" if self.allowed else ""


class NonEmpty(Validator):
    """A text that is absent or has something in it."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        if value == "":
            raise ConfigException.invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonNull(Validator):
    """A text that may be empty but not absent."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigException.invalid(name, value, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class Rule(Validator):
    """Anything else: a function that returns the reason for its refusal, or None."""

    __slots__ = ("reason", "text")

    def __init__(self, text: str, reason: Callable[[str, Any], str | None]) -> None:
        self.text = text
        self.reason = reason

    def check(self, name: str, value: Any) -> None:
        reason = self.reason(name, value)
        if reason is not None:
            raise ConfigException.invalid(name, value, reason)

    def __str__(self) -> str:
        return self.text


class Entries(Validator):
    """A list whose items have a form of their own: the function raises ConfigException at the first that has not."""

    __slots__ = ("parse", "text")

    def __init__(self, text: str, parse: Callable[[str, tuple[str, ...]], object]) -> None:
        self.text = text
        self.parse = parse

    def check(self, name: str, value: Any) -> None:
        self.parse(name, value)

    def __str__(self) -> str:
        return self.text


def at_least(low: float) -> Range:
    """A number with a lower bound only."""
    return Range(low)


def between(low: float, high: float) -> Range:
    """A number between two bounds, both inclusive."""
    return Range(low, high)


def java_text(value: object) -> str:
    """A value as Java's toString prints it, because clients compare and people search for these texts."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(java_text(item) for item in value)}]"
    return str(value)


def java_double(value: float) -> str:
    """Java's Double.toString: plain digits from 1e-3 up to 1e7, otherwise d.dddE±n; always with a fraction."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shortest
    # The digits are those of repr, because rounding to fewer might give other ones.
    head, _, exponent = shortest.lstrip("-").partition("e")
    whole, _, fraction = head.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{power}"
