"""A topic's configuration over the broker's."""

from __future__ import annotations

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig, LogConfigs, topic_defaults, validate_topic_configs
from kafkapy.config.topic_configs import TOPIC_KEYS
from kafkapy.errors import ErrorCode, KafkaError


def test_a_topic_without_values_of_its_own_has_the_brokers() -> None:
    """Every key that has a broker's key takes its value from there, in its own unit."""
    config = LogConfigs(
        BrokerConfig(
            {
                "log.retention.minutes": "2",
                "log.roll.hours": "3",
                "log.roll.jitter.hours": "1",
                "log.flush.scheduler.interval.ms": "9",
                "log.segment.bytes": "2000000",
                "message.max.bytes": "5",
                "log.cleanup.policy": "compact",
            }
        )
    ).of({})
    assert (config.retention_ms, config.segment_ms, config.segment_jitter_ms) == (120_000, 10_800_000, 3_600_000)
    assert (config.flush_ms, config.segment_bytes, config.max_message_bytes) == (9, 2_000_000, 5)
    assert config.cleanup_policy == frozenset({"compact"})
    assert config.compact and not config.delete


def test_all_keys_are_attributes_with_kafkas_defaults() -> None:
    """Under an untouched broker a topic has Kafka's defaults."""
    config = LogConfigs(BrokerConfig()).shared
    for name, key in TOPIC_KEYS.items():
        expected = (
            frozenset(key.default) if name == "cleanup.policy" and isinstance(key.default, tuple) else key.default
        )
        assert getattr(config, key.attribute) == expected, name


def test_a_topics_own_values_win() -> None:
    """What a topic says itself beats the broker."""
    configs = LogConfigs(BrokerConfig({"log.retention.ms": "5"}))
    config = configs.of({"retention.ms": "7", "cleanup.policy": "compact,delete", "segment.bytes": " 2000000 "})
    assert (config.retention_ms, config.segment_bytes) == (7, 2_000_000)
    assert config.compact and config.delete
    assert config.overrides == {"retention.ms": "7", "cleanup.policy": "compact,delete", "segment.bytes": " 2000000 "}


def test_a_test_may_have_tiny_segments() -> None:
    """internal.segment.bytes is not bound to a mebibyte."""
    assert LogConfigs(BrokerConfig()).of({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_equal_overrides_share_one_object() -> None:
    """Ten thousand topics without values of their own cost one object."""
    configs = LogConfigs(BrokerConfig())
    assert configs.of({}) is configs.of({}) is configs.shared
    one = configs.of({"retention.ms": "7", "flush.ms": "1"})
    assert configs.of({"flush.ms": "1", "retention.ms": "7"}) is one
    assert configs.of({"retention.ms": "8"}) is not one


def test_the_cache_stays_bounded() -> None:
    """A broker whose topics all differ does not keep every configuration that ever was."""
    configs = LogConfigs(BrokerConfig())
    for number in range(4200):
        configs.of({"retention.ms": str(number)})
    assert len(configs._cache) <= 4096


def test_attributes_do_not_change() -> None:
    """A configuration that many logs share must not be altered in place."""
    with pytest.raises(AttributeError, match="does not change"):
        LogConfigs(BrokerConfig()).shared.retention_ms = 3


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"foo": "x"}, "Unknown topic config name: foo"),
        (
            {"retention.ms": None, "flush.ms": "1", "segment.ms": None},
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        ({"segment.bytes": "x"}, "Invalid value x for configuration segment.bytes: Not a number of type INT"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_what_a_topic_cannot_have_is_refused(configs: dict[str, str | None], message: str) -> None:
    """INVALID_CONFIG, in Kafka's words."""
    with pytest.raises(KafkaError) as caught:
        validate_topic_configs(configs)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_the_brokers_values_count_in_checks_between_keys() -> None:
    """A topic's maximum may lie below the broker's minimum."""
    defaults = topic_defaults(BrokerConfig({"log.cleaner.min.compaction.lag.ms": "100"}))
    with pytest.raises(KafkaError, match="conflict"):
        validate_topic_configs({"max.compaction.lag.ms": "50"}, defaults)
    validate_topic_configs({"max.compaction.lag.ms": "50"})


def test_a_config_can_be_made_from_defaults_alone() -> None:
    """Keys that are not a topic's are kept as text and otherwise ignored."""
    config = LogConfig(topic_defaults(BrokerConfig()), {"gone.key": "1"})
    assert config.overrides == {"gone.key": "1"}


def test_a_stored_value_that_is_not_legal_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A log opens all the same, and somebody hears of it once."""
    configs = LogConfigs(BrokerConfig())
    config = configs.of({"retention.ms": "x", "flush.ms": "5"})
    assert (config.retention_ms, config.flush_ms) == (604_800_000, 5)
    configs.of({"retention.ms": "x", "flush.ms": "5"})
    assert len(caplog.records) == 1
