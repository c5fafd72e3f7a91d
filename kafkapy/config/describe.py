"""The settings of a resource as DescribeConfigs tells them: each value with its source and the chain behind it.

A chain (the "synonyms") lists every place where a value stands, the strongest first: changes of this broker, changes for all
brokers, the properties file, the default; for each place all of the key's names, as log.retention.ms, .minutes, .hours. It
begins at the first entry under the key's own name, so a key that is not set anywhere has no chain although a weaker name
is set, and is told to be a default. The value is the effective one all the same. All that as Apache Kafka 4.3 answers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.client_metrics_configs import CLIENT_METRICS_KEYS
from kafkapy.config.definitions import ConfigKey, ConfigType, UpdateMode, format_value
from kafkapy.config.group_configs import BROKER_SYNONYMS as GROUP_SYNONYMS
from kafkapy.config.group_configs import GROUP_KEYS, group_values
from kafkapy.config.log_config import tolerant_log_config, topic_defaults
from kafkapy.config.quota_configs import BROKER_QUOTA_KEYS
from kafkapy.config.resources import ConfigSource
from kafkapy.config.topic_configs import BROKER_SYNONYMS as TOPIC_SYNONYMS
from kafkapy.config.topic_configs import TOPIC_KEYS

# Keys of which one setting is spread over several, strongest first.
_CHAINS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SPREAD = {name: chain for chain in _CHAINS for name in chain} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}

# Kafka can change these while it runs; here the sockets and what they speak are settled at the start.
SETTLED_AT_START = frozenset({"listeners", "listener.security.protocol.map"})


class Synonym(NamedTuple):
    """One place where a value stands."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting of a resource."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    type: ConfigType
    read_only: bool = False
    sensitive: bool = False
    documentation: str | None = None


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], wanted: Container[str] | None = None
) -> list[ConfigEntry]:
    """All settings of a topic; `wanted` narrows them."""
    values = tolerant_log_config(topic_defaults(broker), overrides).values
    entries = []
    for name, key in TOPIC_KEYS.items():
        if (key.internal and name not in overrides) or not _is_wanted(name, wanted):
            continue
        value = format_value(values[name])
        synonyms = list(_broker_chain(broker, TOPIC_SYNONYMS[name][0][0])) if name in TOPIC_SYNONYMS else []
        if name in overrides:
            synonyms.insert(0, Synonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        entries.append(_entry(key, value, synonyms))
    return entries


def describe_broker(broker: BrokerConfig, wanted: Container[str] | None = None) -> list[ConfigEntry]:
    """All settings of this broker: those that Kafka knows, and whatever else the file and the changes contain."""
    names = dict.fromkeys(name for name, key in BROKER_KEYS.items() if not key.internal)
    for texts in (broker.static, broker.dynamic_default, broker.dynamic_broker):
        names.update(dict.fromkeys(texts))
    entries = []
    for name in names:
        if not _is_wanted(name, wanted):
            continue
        key = find_broker_key(name)
        value = format_value(broker.values[name]) if name in BROKER_KEYS else _text(broker, name)
        entries.append(_broker_entry(name, key, value, list(_broker_chain(broker, name))))
    return entries


def describe_default_broker(overrides: Mapping[str, str], wanted: Container[str] | None = None) -> list[ConfigEntry]:
    """The changes that were made for all brokers."""
    entries = []
    for name, text in overrides.items():
        if _is_wanted(name, wanted):
            key = find_broker_key(name)
            shown = None if key is None or key.sensitive else text
            synonym = Synonym(name, shown, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            entries.append(_broker_entry(name, key, text, [synonym]))
    return entries


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], wanted: Container[str] | None = None
) -> list[ConfigEntry]:
    """All settings of a group, whether it exists or not."""
    values = group_values(broker, overrides)
    entries = []
    for name, key in GROUP_KEYS.items():
        if not _is_wanted(name, wanted):
            continue
        value = format_value(values[name])
        if name in GROUP_SYNONYMS:
            synonyms = list(_broker_chain(broker, GROUP_SYNONYMS[name]))
        else:
            synonyms = [Synonym(name, format_value(key.default), ConfigSource.DEFAULT_CONFIG)]
        if name in overrides:
            synonyms.insert(0, Synonym(name, overrides[name], ConfigSource.GROUP_CONFIG))
        entries.append(_entry(key, value, synonyms))
    return entries


def describe_client_metrics(overrides: Mapping[str, str], wanted: Container[str] | None = None) -> list[ConfigEntry]:
    """All settings of a client metrics subscription, whether it exists or not."""
    entries = []
    for name, key in CLIENT_METRICS_KEYS.items():
        if not _is_wanted(name, wanted):
            continue
        text = overrides.get(name)
        synonyms = [] if text is None else [Synonym(name, text, ConfigSource.CLIENT_METRICS_CONFIG)]
        entries.append(_entry(key, format_value(key.default) if text is None else text, synonyms))
    return entries


def find_broker_key(name: str) -> ConfigKey | None:
    """The definition of a broker's key; `listener.name.NAME.` before a key makes it that of one listener."""
    key = BROKER_KEYS.get(name) or BROKER_QUOTA_KEYS.get(name)
    if key is None and name.startswith("listener.name."):
        return BROKER_KEYS.get(_listener_base(name))
    return key


def is_dynamic(name: str) -> bool:
    """Whether a broker's key may change while the broker runs."""
    key = BROKER_KEYS.get(name) or BROKER_QUOTA_KEYS.get(name)
    return key is not None and key.update_mode is not UpdateMode.READ_ONLY and name not in SETTLED_AT_START


def _listener_base(name: str) -> str:
    """The plain key of one that is meant for a single listener, or for one mechanism of it."""
    rest = name.split(".", 3)[3] if name.count(".") >= 3 else ""
    if rest not in BROKER_KEYS and "." in rest:
        mechanism_less = rest.split(".", 1)[1]
        return mechanism_less if mechanism_less in BROKER_KEYS else rest
    return rest


def _broker_chain(broker: BrokerConfig, name: str) -> Iterable[Synonym]:
    """The places where a broker's key has a value, beginning with the first under its own name."""
    names = _SPREAD.get(name, (name,))
    if name.startswith("listener.name."):
        names = (name, _listener_base(name))
    begun = False
    for texts, source in (
        (broker.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (broker.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.static, ConfigSource.STATIC_BROKER_CONFIG),
        (None, ConfigSource.DEFAULT_CONFIG),
    ):
        for synonym in names:
            key = find_broker_key(synonym)
            if texts is not None:
                text = texts.get(synonym)
            else:
                text = format_value(BROKER_KEYS[synonym].default) if synonym in BROKER_KEYS else None
            if text is not None:
                begun = begun or synonym == name
                if begun:
                    yield Synonym(synonym, None if key is None or key.sensitive else text, source)


def _text(broker: BrokerConfig, name: str) -> str | None:
    """The strongest text of a key that has no definition of its own."""
    for texts in (broker.dynamic_broker, broker.dynamic_default, broker.static):
        if name in texts:
            return texts[name]
    return None


def _is_wanted(name: str, wanted: Container[str] | None) -> bool:
    return wanted is None or name in wanted


def _broker_entry(name: str, key: ConfigKey | None, value: str | None, synonyms: list[Synonym]) -> ConfigEntry:
    if key is None:  # Nobody knows what it is, so it may be a secret.
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        return ConfigEntry(name, None, source, tuple(synonyms), ConfigType.UNKNOWN, read_only=True, sensitive=True)
    entry = _entry(key, value, synonyms)._replace(name=name, read_only=not is_dynamic(name))
    return entry if name in BROKER_KEYS else entry._replace(documentation=None)


def _entry(key: ConfigKey, value: str | None, synonyms: list[Synonym]) -> ConfigEntry:
    return ConfigEntry(
        key.name,
        None if key.sensitive else value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        tuple(synonyms),
        key.type,
        sensitive=key.sensitive,
        documentation=key.documentation,
    )
