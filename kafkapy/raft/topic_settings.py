"""A topic's effective settings and where each of them comes from, as clients are shown them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.definitions import format_value
from kafkapy.config.log_config import topic_defaults
from kafkapy.config.topic_configs import BROKER_SYNONYMS, TOPIC_KEYS


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Setting(NamedTuple):
    """One effective setting."""

    name: str
    value: str | None
    source: ConfigSource


def describe_topic_configs(config: BrokerConfig, own: Mapping[str, str]) -> list[Setting]:
    """All settings of a topic with these values of its own."""
    defaults = topic_defaults(config)
    settings = []
    for name, key in TOPIC_KEYS.items():
        if key.internal:
            continue
        if name in own:
            settings.append(Setting(name, own[name], ConfigSource.TOPIC))
        else:
            settings.append(Setting(name, format_value(defaults[name]), broker_source(config, name)))
    return settings


def broker_source(config: BrokerConfig, topic_key: str) -> ConfigSource:
    """Where the broker has the value that its topics begin with."""
    synonyms = [synonym for synonym, _ in BROKER_SYNONYMS.get(topic_key, ())]
    for synonym in synonyms:
        if synonym in config.dynamic_broker:
            return ConfigSource.DYNAMIC_BROKER
        if synonym in config.dynamic_default:
            return ConfigSource.DYNAMIC_DEFAULT_BROKER
        if synonym in config.static:
            return ConfigSource.STATIC_BROKER
    return ConfigSource.DEFAULT
