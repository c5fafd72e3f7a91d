"""The configuration keys of a client metrics subscription: which clients push which metrics how often (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kafkapy.config.definitions import INT, LIST, ConfigKey, UpdateMode, by_name
from kafkapy.config.validators import ConfigException, ListOf
from kafkapy.errors import ErrorCode, KafkaError

INTERVAL_MS_MIN = 100
INTERVAL_MS_MAX = 3600000

# What a pattern of `match` may look at.
MATCH_FIELDS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

CLIENT_METRICS_KEYS: dict[str, ConfigKey] = by_name(
    (
        ConfigKey(
            "interval.ms",
            INT,
            300000,
            UpdateMode.CLUSTER_WIDE,
            "How often the clients push their metrics.",
        ),
        ConfigKey(
            "match",
            LIST,
            (),
            UpdateMode.CLUSTER_WIDE,
            "Patterns FIELD=REGEX that a client must match, all of them; without any, every client does.",
            ListOf(empty=True),
        ),
        ConfigKey(
            "metrics",
            LIST,
            (),
            UpdateMode.CLUSTER_WIDE,
            "Prefixes of the metrics to push; * stands for all of them.",
            ListOf(empty=True),
        ),
    )
)


def validate_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Refuse what a subscription cannot have. Raises KafkaError with Kafka's code and sentence."""
    for name in configs:
        if name not in CLIENT_METRICS_KEYS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    try:
        values = {name: CLIENT_METRICS_KEYS[name].parse(text) for name, text in configs.items()}
    except ConfigException as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    interval_ms = values.get("interval.ms")
    if interval_ms is not None and not INTERVAL_MS_MIN <= cast(int, interval_ms) <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)",
        )
    parse_match(cast("tuple[str, ...]", values.get("match", ())))


def parse_match(patterns: tuple[str, ...]) -> dict[str, str]:
    """The regular expression of each field. Raises KafkaError(INVALID_CONFIG)."""
    import re  # only where there are subscriptions

    fields: dict[str, str] = {}
    for pattern in patterns:
        parts = [part.strip() for part in pattern.split("=")]
        try:
            if len(parts) != 2 or parts[0] not in MATCH_FIELDS or not parts[1]:
                raise ValueError
            re.compile(parts[1])
        except (ValueError, re.error) as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}") from error
        fields[parts[0]] = parts[1]
    return fields
