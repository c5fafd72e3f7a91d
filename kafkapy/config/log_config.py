"""A topic's configuration as the log reads it: its own values over the broker's.

Most topics have none of their own, so those of one broker configuration all share one object. What a topic may be given
is checked here too, with Kafka's sentences, for CreateTopics and the requests that alter configurations.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.definitions import Value
from kafkapy.config.topic_configs import BROKER_SYNONYMS, TOPIC_KEYS
from kafkapy.config.validators import ConfigException
from kafkapy.errors import ErrorCode, KafkaError

log = logging.getLogger("kafkapy.config")

# Keys whose broker-wide value is spread over several of the broker's keys: the attribute of BrokerConfig that counts them in.
_RESOLVED_BY_BROKER = {
    "retention.ms": "log_retention_ms",
    "segment.ms": "log_roll_ms",
    "segment.jitter.ms": "log_roll_jitter_ms",
    "flush.ms": "log_flush_interval_ms",
}

# With all logs of a broker in one process, as many different sets of overrides as topics use are kept.
_CACHE_ENTRIES_MAX = 4096


class LogConfig:
    """One topic's configuration, frozen; an attribute has the key's name in snake_case."""

    __slots__ = (*tuple(key.attribute for key in TOPIC_KEYS.values()), "overrides", "values")

    cleanup_policy: frozenset[str]
    retention_ms: int
    retention_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    file_delete_delay_ms: int
    # `internal.segment.bytes`, if somebody set it, stands in the place of segment.bytes.
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool
    flush_messages: int
    flush_ms: int
    max_message_bytes: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    leader_replication_throttled_replicas: tuple[str, ...]
    follower_replication_throttled_replicas: tuple[str, ...]
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    local_retention_bytes: int
    local_retention_ms: int
    # The topic's own values as texts, and all values parsed, each with the broker's where the topic has none.
    overrides: Mapping[str, str]
    values: Mapping[str, Value]

    def __init__(self, defaults: Mapping[str, Value], overrides: Mapping[str, str]) -> None:
        """`defaults` are those of `topic_defaults`. Raises ConfigException."""
        values = dict(defaults)
        for name, text in overrides.items():
            key = TOPIC_KEYS.get(name)
            if key is not None:
                values[name] = key.parse(text)
        self._set("overrides", dict(overrides))
        self._set("values", values)
        for name, value in values.items():
            self._set(TOPIC_KEYS[name].attribute, value)
        self._set("cleanup_policy", frozenset(cast("tuple[str, ...]", values["cleanup.policy"])))
        if values["internal.segment.bytes"] is not None:
            self._set("segment_bytes", values["internal.segment.bytes"])

    @property
    def compact(self) -> bool:
        """Whether only the last record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a configuration does not change: make another one with {name} set")


class LogConfigs:
    """The LogConfig of any topic under one broker configuration, each different one made once."""

    __slots__ = ("_cache", "defaults", "shared")

    def __init__(self, broker: BrokerConfig) -> None:
        self.defaults = topic_defaults(broker)
        self.shared = LogConfig(self.defaults, {})
        self._cache: dict[tuple[tuple[str, str], ...], LogConfig] = {}

    def of(self, overrides: Mapping[str, str]) -> LogConfig:
        """The configuration of a topic with these values of its own; those that are not legal any more are left out."""
        if not overrides:
            return self.shared
        identity = tuple(sorted(overrides.items()))
        config = self._cache.get(identity)
        if config is None:
            if len(self._cache) >= _CACHE_ENTRIES_MAX:
                self._cache.clear()
            config = self._cache[identity] = tolerant_log_config(self.defaults, overrides)
        return config


def tolerant_log_config(defaults: Mapping[str, Value], overrides: Mapping[str, str]) -> LogConfig:
    """The configuration of stored values. One that is not legal, having been stored by another version, hides no other."""
    try:
        return LogConfig(defaults, overrides)
    except ConfigException as error:
        log.warning("a topic's own value is ignored: %s", error)
        return tolerant_log_config(defaults, {name: text for name, text in overrides.items() if name != error.name})


def topic_defaults(broker: BrokerConfig) -> dict[str, Value]:
    """What a topic without values of its own has: the broker's values, and for the other keys their defaults."""
    defaults: dict[str, Value] = {}
    for name, key in TOPIC_KEYS.items():
        if name in _RESOLVED_BY_BROKER:
            defaults[name] = getattr(broker, _RESOLVED_BY_BROKER[name])
        elif name in BROKER_SYNONYMS:
            defaults[name] = broker.values[BROKER_SYNONYMS[name][0][0]]
        else:
            defaults[name] = key.default
    return defaults


def validate_topic_configs(configs: Mapping[str, str | None], defaults: Mapping[str, Value] | None = None) -> None:
    """Refuse what a topic cannot have. `configs` are all its own values as they would be after the change.

    `defaults` (see `topic_defaults`) count where two keys must fit each other. Raises KafkaError(INVALID_CONFIG).
    """
    for name in configs:
        if name not in TOPIC_KEYS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    nulls = [name for name, text in configs.items() if text is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    values = dict(defaults or {name: key.default for name, key in TOPIC_KEYS.items()})
    try:
        values.update({name: TOPIC_KEYS[name].parse(text) for name, text in configs.items()})
    except ConfigException as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    low, high = cast(int, values["min.compaction.lag.ms"]), cast(int, values["max.compaction.lag.ms"])
    if low > high:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})",
        )
    if values["remote.storage.enable"]:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
