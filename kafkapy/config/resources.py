"""What has a configuration, and where a value can come from: the numbers of the protocol."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """A kind of resource. A broker's name is its node id; the empty name stands for all brokers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from; of several places with a value, the lower number of 1 to 5 wins."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with a value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
