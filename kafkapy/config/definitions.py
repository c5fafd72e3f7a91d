"""What a configuration key is: its type, how a text becomes a value, and how a value becomes the text that clients are shown.

The types and the messages are those of Kafka's ConfigDef, because people search the web for these messages and tools match on
them. Every key of every resource is one `ConfigKey`; the declarations stand in `broker/`, `topic_configs.py`,
`group_configs.py`, `client_metrics_configs.py` and `quota_configs.py`. A starting broker imports them all, so a declaration is
a plain tuple and nothing is compiled or parsed while importing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from kafkapy.config.validators import ConfigException, Validator, java_text

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The types of Kafka's ConfigDef; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """How a broker's key may change while the broker runs."""

    READ_ONLY = "read-only"  # only in the properties file, at the next start
    PER_BROKER = "per-broker"  # for one broker at a time
    CLUSTER_WIDE = "cluster-wide"  # for one broker, or for all that say nothing else


BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = list(ConfigType)[1:]
READ_ONLY, PER_BROKER, CLUSTER_WIDE = UpdateMode

# The largest values of Java's types, which Kafka uses for "no limit".
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

_INTEGER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class ConfigKey(NamedTuple):
    """One configuration key. `honoured` says whether setting it changes anything in kafkapy."""

    name: str
    type: ConfigType
    default: Value
    update_mode: UpdateMode
    documentation: str
    validator: Validator | None = None
    honoured: bool = False
    internal: bool = False
    required: bool = False

    @property
    def sensitive(self) -> bool:
        """Secrets are never shown to anybody, not even to the one who set them."""
        return self.type is ConfigType.PASSWORD

    @property
    def attribute(self) -> str:
        """The name of the Python attribute that holds the value: snake_case of the key."""
        return self.name.replace(".", "_")

    def parse(self, text: str | None) -> Value:
        """The value that `text` stands for, checked. Raises ConfigException with Kafka's message."""
        value = parse_type(self.name, text, self.type)
        if self.validator is None:
            return value
        if isinstance(value, tuple) and self.validator.distinct:
            value = tuple(dict.fromkeys(value))
        self.validator.check(self.name, value)
        return value

    def format(self, value: Value) -> str | None:
        """The text that DescribeConfigs shows for a value of this key."""
        return format_value(value)


def by_name(*groups: Sequence[ConfigKey]) -> dict[str, ConfigKey]:
    """One table of several lists of keys, in the order in which they are declared."""
    return {key.name: key for group in groups for key in group}


def parse_type(name: str, text: str | None, kind: ConfigType) -> Value:
    """`text` as a value of `kind`, without further checks. None stays None, as a null does in Kafka."""
    if text is None:
        return None
    trimmed = _trim(text)
    if kind in _INTEGER_BITS:
        number = _parse_integer(trimmed, _INTEGER_BITS[kind])
        if number is None:
            raise ConfigException.invalid(name, text, f"Not a number of type {kind.name}")
        return number
    if kind is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise ConfigException.invalid(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind is ConfigType.DOUBLE:
        real = _parse_double(trimmed)
        if real is None:
            raise ConfigException.invalid(name, text, "Not a number of type DOUBLE")
        return real
    if kind is ConfigType.LIST:
        return tuple(_trim(item) for item in trimmed.split(",")) if trimmed else ()
    return trimmed


def format_value(value: Value) -> str | None:
    """A parsed value as Java would print it: `true`, `1.0E10`, `a,b`; None stays None."""
    if isinstance(value, tuple):
        return ",".join(value)
    return None if value is None else java_text(value)


def parse_all(keys: Mapping[str, ConfigKey], texts: Mapping[str, str]) -> dict[str, Value]:
    """The values of all `keys`: those given in `texts` parsed and checked, the others at their defaults."""
    return {name: key.parse(texts[name]) if name in texts else key.default for name, key in keys.items()}


def _trim(text: str) -> str:
    """Java's String.trim: everything up to and including the blank goes, on both sides."""
    start, end = 0, len(text)
    while start < end and text[start] <= " ":
        start += 1
    while end > start and text[end - 1] <= " ":
        end -= 1
    return text[start:end]


def _parse_integer(text: str, bits: int) -> int | None:
    """A decimal number that fits `bits`, with an optional sign; int() alone would accept underscores and blanks."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or len(digits) > 40:
        return None
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None


def _parse_double(text: str) -> float | None:
    """Java's Double.parseDouble: `1`, `.5`, `1e3`, `1.5f`, `0x1p3`, `NaN`, `Infinity`; nothing that only Python knows."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned in ("NaN", "Infinity"):
        return float(text)
    if not unsigned[:1].isascii() or not (unsigned[:1].isdigit() or unsigned[:1] == ".") or "_" in unsigned:
        return None
    body = text[:-1] if text[-1] in "dDfF" and "x" not in text.lower() else text
    try:
        return float.fromhex(body) if "x" in body.lower() else float(body)
    except (ValueError, OverflowError):
        return None
