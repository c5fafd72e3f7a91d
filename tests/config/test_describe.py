"""The settings of resources with their sources, held against what an Apache Kafka 4.3.1 broker answered.

data/describe_configs.json has the broker's properties, the changes that were made to it and to a topic, a group and a
subscription, and its answers: name, value, read-only, source, sensitive, type, and the chain of each entry.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.config.broker_config import CLUSTER_DEFAULTS, BrokerConfig
from kafkapy.config.describe import (
    SETTLED_AT_START,
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_default_broker,
    describe_group,
    describe_topic,
    find_broker_key,
    is_dynamic,
)
from kafkapy.config.resources import ConfigSource, ResourceType

ASKED = json.loads((Path(__file__).parent / "data" / "describe_configs.json").read_text())
CONFIGS: dict[tuple[int, str], dict[str, str]] = {(kind, name): values for kind, name, values in ASKED["configs"]}
ANSWERS = [answer for answer in ASKED["answers"] if answer[1] == 0 and answer[0][0] != ResourceType.BROKER_LOGGER]

# Once a dynamic change covers them, Kafka shows the default as value of these, but the file as its source.
SHOWN_AS_IN_THE_FILE = {"log.retention.hours": "100", "log.flush.scheduler.interval.ms": "100000"}


def broker() -> BrokerConfig:
    """The broker that was asked."""
    return BrokerConfig(ASKED["static"], CONFIGS[ResourceType.BROKER, ""], CONFIGS[ResourceType.BROKER, "1"])


def described(kind: int, name: str, keys: list[str] | None) -> list[ConfigEntry]:
    """Our entries for the question."""
    wanted = frozenset(keys) if keys else None
    overrides = CONFIGS.get((kind, name), {})
    if kind == ResourceType.TOPIC:
        return describe_topic(broker(), overrides, wanted)
    if kind == ResourceType.BROKER:
        return describe_broker(broker(), wanted) if name else describe_default_broker(overrides, wanted)
    if kind == ResourceType.GROUP:
        return describe_group(broker(), overrides, wanted)
    return describe_client_metrics(overrides, wanted)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer[0][0]}-{answer[0][1]}-{answer[0][2]}")
def test_entries_are_those_of_apache_kafka(answer: list[Any]) -> None:
    """The same names, and for each the same value, flags, type and chain."""
    question, _, _, expected_entries = answer
    expected = {entry[0]: entry[1:] for entry in expected_entries}
    if question[0] == ResourceType.BROKER and question[1]:
        for name in SETTLED_AT_START & expected.keys():
            expected[name][1] = True
        for name in SHOWN_AS_IN_THE_FILE.keys() & expected.keys():
            expected[name][0] = SHOWN_AS_IN_THE_FILE[name]
        for name in CLUSTER_DEFAULTS.keys() & expected.keys():
            value = CLUSTER_DEFAULTS[name]
            chain = [[name, value, ConfigSource.STATIC_BROKER_CONFIG], *expected[name][5]]
            expected[name] = [value, True, ConfigSource.STATIC_BROKER_CONFIG, *expected[name][3:5], chain]
    entries = described(*question)
    ours = {
        entry.name: [
            entry.value,
            entry.read_only,
            entry.source,
            entry.sensitive,
            entry.type,
            [list(synonym) for synonym in entry.synonyms],
        ]
        for entry in entries
    }
    assert len(ours) == len(entries)
    assert {name: entry for name, entry in ours.items() if not name.startswith("kafkapy.")} == expected


def test_secrets_are_never_shown() -> None:
    """Neither as a value nor in a chain, whether the key is known or not."""
    config = BrokerConfig(
        {"ssl.keystore.password": "abc", "my.own.key": "abc"}, {"other": "abc"}, {"sasl.jaas.config": "abc"}
    )
    assert "abc" not in repr(describe_broker(config))
    assert "abc" not in repr(describe_default_broker(config.dynamic_default))


def test_internal_keys_appear_only_where_they_are_set() -> None:
    """What is meant for tests of the broker does not clutter its description."""
    assert "log.initial.task.delay.ms" not in {entry.name for entry in describe_broker(BrokerConfig())}
    config = BrokerConfig({"log.initial.task.delay.ms": "5"})
    (entry,) = [entry for entry in describe_broker(config) if entry.name == "log.initial.task.delay.ms"]
    assert (entry.value, entry.source) == ("5", ConfigSource.STATIC_BROKER_CONFIG)


def test_a_stored_value_that_is_not_legal_hides_no_other() -> None:
    """A topic that was written by another version is described all the same."""
    entries = {e.name: e for e in describe_topic(BrokerConfig(), {"retention.ms": "x", "flush.ms": "5", "gone": "1"})}
    assert entries["flush.ms"].value == "5"
    assert entries["retention.ms"].value == "604800000"
    assert "gone" not in entries


@pytest.mark.parametrize(
    ("name", "known_as", "dynamic"),
    [
        ("log.segment.bytes", "log.segment.bytes", True),
        ("num.partitions", "num.partitions", False),
        ("leader.replication.throttled.rate", "leader.replication.throttled.rate", True),
        ("listener.name.plaintext.ssl.keystore.password", "ssl.keystore.password", False),
        ("listener.name.in.plain.sasl.jaas.config", "sasl.jaas.config", False),
        ("listener.name.x", None, False),
        ("listener.name.x.y.z", None, False),
        ("listeners", "listeners", False),
        ("foo", None, False),
    ],
)
def test_keys_of_single_listeners_are_those_of_the_broker(name: str, known_as: str | None, dynamic: bool) -> None:
    """A prefix names the listener, perhaps a mechanism of it, and the rest is the key."""
    key = find_broker_key(name)
    assert (key.name if key else None) == known_as
    assert is_dynamic(name) is dynamic


def test_every_entry_is_documented() -> None:
    """Each key of ours says in a sentence what it is for."""
    config = BrokerConfig()
    for entry in (
        *describe_broker(config),
        *describe_topic(config, {}),
        *describe_group(config, {}),
        *describe_client_metrics({}),
    ):
        assert entry.documentation and entry.documentation.endswith("."), entry.name
