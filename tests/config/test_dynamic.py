"""Changes while the broker runs, held against what an Apache Kafka 4.3.1 broker answered to the same changes.

data/alter_configs.json has one row per request: resource type, name, changes (key, operation, value), error code, message.
Where Kafka wraps a message in Java's exception texts, the row has the message alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.describe import SETTLED_AT_START
from kafkapy.config.dynamic import Change, changed_values, reconfigured, replaced_values, validate_values
from kafkapy.config.group_configs import group_values, parse_reset_duration_ms
from kafkapy.config.resources import ConfigOperation, ResourceType
from kafkapy.errors import ErrorCode, KafkaError

DATA = Path(__file__).parent / "data"
ROWS = json.loads((DATA / "alter_configs.json").read_text())
STATIC = json.loads((DATA / "describe_configs.json").read_text())["static"]

CURRENT: dict[tuple[int, str], dict[str, str]] = {
    (ResourceType.BROKER, ""): {"min.insync.replicas": "1"},
    (ResourceType.TOPIC, "t1"): {"cleanup.policy": "compact,delete", "segment.bytes": " 2000000 "},
    (ResourceType.GROUP, "g1"): {"consumer.session.timeout.ms": "46000", "share.isolation.level": "read_committed"},
    (ResourceType.CLIENT_METRICS, "cm1"): {"interval.ms": "1000", "metrics": "a.,b.", "match": "client_id=foo"},
}

# Kafka loads classes, has another rule while it tracks eligible leader replicas, and fails on the operation of a topic.
NOT_COMPARED = {*SETTLED_AT_START, "principal.builder.class", "metric.reporters", "min.insync.replicas"}


def is_compared(row: list) -> bool:
    """Whether the row is about what these functions decide: which topics and loggers exist they do not know."""
    kind, name, changes, code, _ = row
    if kind == ResourceType.BROKER_LOGGER or (kind == ResourceType.TOPIC and name not in ("t1", "")):
        return False
    return code != ErrorCode.UNKNOWN_SERVER_ERROR and not (
        kind == ResourceType.BROKER and any(change[0] in NOT_COMPARED for change in changes)
    )


def outcome(kind: int, name: str, changes: list[list]) -> tuple[int, str | None]:
    """The code and message that the changes are answered with."""
    config = BrokerConfig(STATIC, CURRENT[ResourceType.BROKER, ""], {})
    try:
        values = changed_values(kind, CURRENT.get((kind, name), {}), [Change(*change) for change in changes])
        validate_values(kind, name, values, config)
    except KafkaError as error:
        return int(error.code), error.message
    return 0, None


def test_changes_are_answered_as_apache_kafka_answers() -> None:
    """The same code and message for every change that was tried."""
    rows = [row for row in ROWS if is_compared(row)]
    assert len(rows) > 190
    different = []
    for kind, name, changes, code, message in rows:
        got = outcome(kind, name, changes)
        # A sentence of our own where Kafka's is a Java exception's.
        if message and message.startswith("Error parsing configuration property"):
            message = got[1]
        if got != (code, message):
            different.append((kind, name, changes, (code, message), got))
    assert different == []


@pytest.mark.parametrize(
    ("current", "change", "after"),
    [
        ({}, ("retention.ms", ConfigOperation.SET, "1"), {"retention.ms": "1"}),
        ({"retention.ms": "1"}, ("retention.ms", ConfigOperation.DELETE, None), {}),
        ({}, ("retention.ms", ConfigOperation.DELETE, "x"), {}),
        ({}, ("cleanup.policy", ConfigOperation.APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", 2, "compact,delete"), {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": "a,b"}, ("cleanup.policy", ConfigOperation.SUBTRACT, "b,c"), {"cleanup.policy": "a"}),
        ({}, ("cleanup.policy", ConfigOperation.SUBTRACT, "delete"), {"cleanup.policy": ""}),
        ({"cleanup.policy": ""}, ("cleanup.policy", ConfigOperation.APPEND, "delete"), {"cleanup.policy": "delete"}),
    ],
)
def test_changes_become_values(current: dict[str, str], change: tuple, after: dict[str, str]) -> None:
    """Lists that are not set begin as the default when something is appended or subtracted."""
    before = dict(current)
    assert changed_values(ResourceType.TOPIC, current, [Change(*change)]) == after
    assert current == before


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([("a", "1"), ("a", "2")], "Error due to duplicate config keys"),
        ([("a", None), ("b", None)], "Null value not supported for : a, b"),
    ],
)
def test_replacing_all_values_takes_each_once(configs: list[tuple[str, str | None]], message: str) -> None:
    """The older AlterConfigs refuses the same things."""
    with pytest.raises(KafkaError) as caught:
        replaced_values(configs)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_replacing_all_values_forgets_the_others() -> None:
    """What is not named is gone."""
    assert replaced_values([("a", "1")]) == {"a": "1"}


def test_stored_changes_that_are_not_legal_are_left_out() -> None:
    """One bad value does not keep the broker from starting with the good ones."""
    broker = BrokerConfig({"log.roll.ms": "77"})
    config, ignored = reconfigured(broker, {"log.roll.ms": "0", "log.retention.ms": "5"}, {"log.segment.bytes": "x"})
    assert (config.log_roll_ms, config.log_retention_ms, config.log_segment_bytes) == (77, 5, 1073741824)
    assert [line.split(" is ignored: ")[0] for line in ignored] == [
        "the dynamic change of log.segment.bytes",
        "the dynamic change of log.roll.ms",
    ]
    assert config.dynamic_default == {"log.retention.ms": "5"}


def test_changes_that_contradict_the_file_are_left_out_together() -> None:
    """If no single change is at fault, the file alone counts."""
    broker = BrokerConfig({"max.connections.per.ip.overrides": "127.0.0.1:1", "max.connections.per.ip": "0"})
    config, ignored = reconfigured(broker, {}, {"max.connections.per.ip.overrides": "", "log.retention.ms": "5"})
    assert config.max_connections_per_ip_overrides == {"127.0.0.1": 1}
    assert len(ignored) == 1 and ignored[0].startswith("all dynamic changes are ignored")


def test_a_broker_may_take_away_what_it_could_not_set() -> None:
    """Values that were stored before are not checked again as changes."""
    broker = BrokerConfig(None, {}, {"listener.name.a.b": "1"})
    validate_values(ResourceType.BROKER, "1", {"listener.name.a.b": "1", "log.retention.ms": "5"}, broker)


def test_a_groups_values_keep_within_the_brokers_bounds() -> None:
    """A value that was legal when it was set is brought within the bounds of now."""
    broker = BrokerConfig({"group.consumer.max.session.timeout.ms": "50000"})
    overrides = {
        "consumer.session.timeout.ms": "55000",
        "share.record.lock.duration.ms": "1000",
        "streams.num.standby.replicas": "9",
        "consumer.heartbeat.interval.ms": "x",
    }
    values = group_values(broker, overrides)
    assert values["consumer.session.timeout.ms"] == 50000
    assert values["share.record.lock.duration.ms"] == 15000
    assert values["streams.num.standby.replicas"] == 2
    assert values["consumer.heartbeat.interval.ms"] == 5000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("by_duration:PT0S", 0),
        ("by_duration:P1D", 86_400_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:pt1h", 3_600_000),
        ("by_duration:PT-1H", None),
        ("by_duration:-PT1H", None),
        ("by_duration:-PT-1H", 3_600_000),
        ("by_duration:P1Y", None),
        ("by_duration:PT1.5H", None),
        ("by_duration:", None),
        ("by_duration:P", None),
        ("by_duration:PT", None),
        ("by_duration:P1DT", None),
        ("by_duration:PT0.1234567891S", None),
        ("P1D", None),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, milliseconds: int | None) -> None:
    """As Java's Duration reads them, but never negative."""
    assert parse_reset_duration_ms(text) == milliseconds
