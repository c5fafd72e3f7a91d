"""The definitions say truthfully which keys have an effect: those whose values are read outside kafkapy/config."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.client_metrics_configs import CLIENT_METRICS_KEYS
from kafkapy.config.definitions import ConfigKey
from kafkapy.config.group_configs import GROUP_KEYS
from kafkapy.config.quota_configs import BROKER_QUOTA_KEYS, IP_QUOTA_KEYS, USER_CLIENT_QUOTA_KEYS
from kafkapy.config.topic_configs import BROKER_SYNONYMS, TOPIC_KEYS

PACKAGE = Path(__file__).resolve().parents[2] / "kafkapy"

# Keys that the configuration turns into something else before it is read.
STAND_INS: dict[str, set[str]] = {
    "broker.id": {"node_id"},
    "listeners": {"broker_listeners"},
    "controller.listener.names": {"broker_listeners"},
    "listener.security.protocol.map": {"broker_listeners"},
    "log.dir": {"log_dirs"},
    "log.cleanup.policy": {"compact", "delete"},
    "cleanup.policy": {"compact", "delete"},
    "internal.segment.bytes": {"segment_bytes"},
    # Metadata records have a field of this name; the key itself is for nobody yet.
    "cordoned.log.dirs": set(),
}

# Keys that say what kind of node this is: the configuration itself decides by them and holds them against each other.
DECIDED_BY = {
    "process.roles",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
}

# Of a broker's key that bounds what a group may set: group.<kind>.min.<setting>, group.<kind>.max.<setting>.
BOUND = re.compile(r"^group\.(\w+)\.(?:min|max)\.(.+)$")


@cache
def source() -> str:
    """Everything that could read a configuration."""
    return "\n".join(
        path.read_text() for path in PACKAGE.rglob("*.py") if "config" not in path.relative_to(PACKAGE).parts
    )


@cache
def attributes_read() -> frozenset[str]:
    """Every attribute that is read from anything."""
    return frozenset(re.findall(r"\.([a-z_][a-z0-9_]*)", source()))


def is_read(key: ConfigKey) -> bool:
    """Whether the value of a broker's or topic's key is looked at anywhere."""
    return not attributes_read().isdisjoint(STAND_INS.get(key.name, {key.attribute}))


def is_broker_key_read(key: ConfigKey) -> bool:
    """A broker's key is read by itself, or by the topics that take it over, or by the groups."""
    topics = [name for name, chain in BROKER_SYNONYMS.items() if key.name in {synonym for synonym, _ in chain}]
    if key.name in DECIDED_BY or any(is_read(TOPIC_KEYS[name]) for name in topics):
        return True
    setting = BOUND.sub(r"\1.\2", key.name).removeprefix("group.")
    return is_read(key) or (setting in GROUP_KEYS and is_named(setting))


def is_named(name: str) -> bool:
    """Whether a key that is read out of a mapping is named anywhere: those of groups and quotas are."""
    return f'"{name}"' in source()


READ = {
    "broker": {name: is_broker_key_read(key) for name, key in BROKER_KEYS.items()},
    "topic": {name: is_read(key) for name, key in TOPIC_KEYS.items()},
    "group": {name: is_named(name) for name in GROUP_KEYS},
    "client metrics": {name: "CLIENT_METRICS_KEYS" in source() for name in CLIENT_METRICS_KEYS},
    "quota": {name: is_named(name) for name in (*BROKER_QUOTA_KEYS, *USER_CLIENT_QUOTA_KEYS, *IP_QUOTA_KEYS)},
}
KEYS = {
    "broker": BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client metrics": CLIENT_METRICS_KEYS,
    "quota": BROKER_QUOTA_KEYS | USER_CLIENT_QUOTA_KEYS | IP_QUOTA_KEYS,
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_honoured_where_they_are_read(kind: str) -> None:
    """Set or take away honoured=True in the key's definition, then run python -m kafkapy.config.docs > docs/configuration.md."""
    honoured = {name for name, key in KEYS[kind].items() if key.honoured}
    read = {name for name, is_used in READ[kind].items() if is_used}
    assert sorted(honoured - read) == [], "promised, but nothing reads them"
    assert sorted(read - honoured) == [], "said to change nothing, but they are read"
