"""Every configuration key of a group, and the broker's keys from which a group without its own value takes it.

They apply to consumer, share and streams groups; classic groups get theirs from their members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.definitions import (
    BOOLEAN,
    INT,
    STRING,
    ConfigKey,
    ConfigType,
    UpdateMode,
    Value,
    by_name,
)
from kafkapy.config.validators import ConfigException, OneOf, Rule, Validator, at_least
from kafkapy.errors import ErrorCode, KafkaError

_DURATION_PREFIX = "by_duration:"


def parse_reset_duration_ms(text: str) -> int | None:
    """The milliseconds of `by_duration:PnDTnHnMn.nS`, or None if `text` is not of that form or lies in the future."""
    import re  # only for those who set the key

    if not text.startswith(_DURATION_PREFIX):
        return None
    number = r"([-+]?\d+)"
    pattern = rf"([-+]?)P(?:{number}D)?(T(?:{number}H)?(?:{number}M)?(?:{number}(?:[.,](\d{{0,9}}))?S)?)?"
    match = re.fullmatch(pattern, text[len(_DURATION_PREFIX) :], re.IGNORECASE | re.ASCII)
    if match is None or not any(match.group(2, 4, 5, 6)) or match.group(3) in ("T", "t"):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.group(2, 4, 5, 6))
    fraction_ns = int((match.group(7) or "").ljust(9, "0")) * (-1 if (match.group(6) or "").startswith("-") else 1)
    total_ns = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**9 + fraction_ns
    total_ns *= -1 if match.group(1) == "-" else 1
    return total_ns // 10**6 if total_ns >= 0 else None


def _offset_reset_reason(name: str, value: str) -> str | None:
    if value in ("earliest", "latest") or parse_reset_duration_ms(value) is not None:
        return None
    return (
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
        "format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _key(
    name: str,
    kind: ConfigType,
    default: Value,
    documentation: str,
    validator: Validator | None = None,
    *,
    honoured: bool = False,
) -> ConfigKey:
    """A group's key: all of them may change while the broker runs."""
    return ConfigKey(name, kind, default, UpdateMode.CLUSTER_WIDE, documentation, validator, honoured=honoured)


CONSUMER_KEYS = (
    _key(
        "consumer.session.timeout.ms",
        INT,
        45000,
        "A member silent for this long is removed.",
        at_least(1),
        honoured=True,
    ),
    _key(
        "consumer.heartbeat.interval.ms",
        INT,
        5000,
        "How often members are told to send a heartbeat.",
        at_least(1),
        honoured=True,
    ),
    _key(
        "consumer.assignment.interval.ms",
        INT,
        1000,
        "The shortest time between two assignments.",
        at_least(0),
        honoured=True,
    ),
)

SHARE_KEYS = (
    _key("share.session.timeout.ms", INT, 45000, "A member silent for this long is removed.", at_least(1)),
    _key("share.heartbeat.interval.ms", INT, 5000, "How often members are told to send a heartbeat.", at_least(1)),
    _key("share.assignment.interval.ms", INT, 1000, "The shortest time between two assignments.", at_least(0)),
    _key(
        "share.auto.offset.reset",
        STRING,
        "latest",
        "Where the group begins to read a partition that is new to it.",
        Rule("[latest, earliest, by_duration:PnDTnHnMn.nS]", _offset_reset_reason),
    ),
    _key(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        "Whether the group reads records of open transactions.",
        OneOf("read_committed", "read_uncommitted"),
    ),
    _key(
        "share.record.lock.duration.ms",
        INT,
        30000,
        "How long a member may hold a record without acknowledging it.",
        at_least(1000),
    ),
    _key("share.delivery.count.limit", INT, 5, "How often a record is delivered before it is given up.", at_least(2)),
    _key(
        "share.partition.max.record.locks",
        INT,
        2000,
        "How many records of a partition may be held at a time.",
        at_least(100),
    ),
    _key("share.renew.acknowledge.enable", BOOLEAN, True, "Whether a member may extend its hold on a record."),
)

STREAMS_KEYS = (
    _key("streams.session.timeout.ms", INT, 45000, "A member silent for this long is removed.", at_least(1)),
    _key("streams.heartbeat.interval.ms", INT, 5000, "How often members are told to send a heartbeat.", at_least(1)),
    _key("streams.assignment.interval.ms", INT, 1000, "The shortest time between two assignments.", at_least(0)),
    _key(
        "streams.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first assignment of an empty group waits for more members.",
        at_least(0),
    ),
    _key("streams.num.standby.replicas", INT, 0, "Standby copies of each stateful task.", at_least(0)),
)

GROUP_KEYS: dict[str, ConfigKey] = by_name(CONSUMER_KEYS, SHARE_KEYS, STREAMS_KEYS)

_WITHOUT_SYNONYM = {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
BROKER_SYNONYMS: dict[str, str] = {name: f"group.{name}" for name in GROUP_KEYS if name not in _WITHOUT_SYNONYM}

# The settings that the broker bounds by keys of its own: group.<kind>.min.<setting> and group.<kind>.max.<setting>.
_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
)


def group_values(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """All settings of a group: its own, else the broker's. Its own are brought within the broker's present bounds.

    A stored value can be outside of them, or refused altogether, because the broker's configuration has changed since.
    """
    values: dict[str, Value] = {}
    for name, key in GROUP_KEYS.items():
        synonym = BROKER_SYNONYMS.get(name)
        values[name] = broker.values[synonym] if synonym else key.default
        if name in overrides:
            try:
                values[name] = key.parse(overrides[name])
            except ConfigException:
                continue
    for name in _BOUNDED:
        if name in overrides:
            low, high = _bounds(broker, name)
            value = min(cast(int, values[name]), high[1])
            values[name] = max(value, low[1]) if low else value
    return values


def validate_group_configs(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """Refuse what a group cannot have: `configs` are all its own values as they would be after the change.

    Raises KafkaError(INVALID_CONFIG) with Kafka's sentence.
    """
    for name in configs:
        if name not in GROUP_KEYS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    values = group_values(broker, {})
    try:
        values.update({name: GROUP_KEYS[name].parse(text) for name, text in configs.items()})
    except ConfigException as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    for name in _BOUNDED:
        low, high = _bounds(broker, name)
        value = cast(int, values[name])
        if low and value < low[1]:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {low[0]}")
        if value > high[1]:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {high[0]}")
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if cast(int, values[heartbeat]) >= cast(int, values[session]):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def _bounds(broker: BrokerConfig, name: str) -> tuple[tuple[str, int] | None, tuple[str, int]]:
    """The broker's keys that bound a group's setting from below and above, with their values."""
    kind, _, setting = name.partition(".")
    if name == "streams.num.standby.replicas":
        key = "group.streams.max.standby.replicas"
        return None, (key, cast(int, broker.values[key]))
    low, high = f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
    return (low, cast(int, broker.values[low])), (high, cast(int, broker.values[high]))
