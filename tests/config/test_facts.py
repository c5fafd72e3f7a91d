"""Every key of Apache Kafka 4.3.1 is declared as Kafka declares it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.client_metrics_configs import CLIENT_METRICS_KEYS
from kafkapy.config.definitions import ConfigKey
from kafkapy.config.group_configs import GROUP_KEYS
from kafkapy.config.quota_configs import BROKER_QUOTA_KEYS, IP_QUOTA_KEYS, USER_CLIENT_QUOTA_KEYS
from kafkapy.config.topic_configs import BROKER_SYNONYMS, TOPIC_KEYS

FACTS = Path(__file__).resolve().parents[3] / "shared" / "protocol" / "configs.json"

pytestmark = pytest.mark.skipif(not FACTS.exists(), reason="the table of Kafka's facts is not here")

DECLARED = {
    "broker": BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client-metrics": CLIENT_METRICS_KEYS,
    "user-and-client-quota": USER_CLIENT_QUOTA_KEYS,
    "ip-quota": IP_QUOTA_KEYS,
    "broker-quota": BROKER_QUOTA_KEYS,
}


def facts(kind: str) -> dict[str, dict[str, Any]]:
    """Kafka's keys of one kind by name."""
    return {fact["name"]: fact for fact in json.loads(FACTS.read_text())[kind]}


def declaration(key: ConfigKey) -> dict[str, Any]:
    """A key of ours in the words of the table."""
    default = list(key.default) if isinstance(key.default, tuple) else key.default
    return {
        "type": key.type.name.lower(),
        "default": default,
        "valid": str(key.validator or ""),
        "internal": key.internal,
        "required": key.required,
    }


def is_ours(name: str) -> bool:
    """Whether a key is one that Kafka doesn't have."""
    return name.startswith("kafkapy.")


@pytest.mark.parametrize("kind", DECLARED)
def test_every_key_is_declared_with_its_type_default_and_bounds(kind: str) -> None:
    """The declared keys are exactly Kafka's, with the same type, default, bounds and visibility."""
    expected = {
        name: {"default": None, "valid": "", "internal": False, "required": False}
        | {field: fact[field] for field in ("type", "default", "valid", "internal", "required") if field in fact}
        for name, fact in facts(kind).items()
    }
    assert {name: declaration(key) for name, key in DECLARED[kind].items() if not is_ours(name)} == expected


@pytest.mark.parametrize("kind", DECLARED)
def test_defaults_have_the_python_type_of_their_key(kind: str) -> None:
    """A default of true is a bool, of 0.5 a float: comparing 1 with True would not notice."""
    python_types = {"boolean": bool, "int": int, "short": int, "long": int, "double": float, "list": tuple}
    for key in DECLARED[kind].values():
        expected = python_types.get(key.type.name.lower(), str)
        assert key.default is None or type(key.default) is expected, key.name


def test_every_broker_key_changes_as_it_does_in_kafka() -> None:
    """Read-only, per-broker and cluster-wide keys are the same ones."""
    expected = {name: fact["update"] for name, fact in facts("broker").items()}
    assert {name: key.update_mode.value for name, key in BROKER_KEYS.items() if not is_ours(name)} == expected


def test_topics_fall_back_on_the_same_broker_keys() -> None:
    """Each topic key names the broker key that Kafka names."""
    expected = {name: fact["brokerConfig"] for name, fact in facts("topic").items() if "brokerConfig" in fact}
    assert {name: chain[0][0] for name, chain in BROKER_SYNONYMS.items()} == expected
