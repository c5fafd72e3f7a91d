"""Writes docs/configuration.md from the definitions: `python -m kafkapy.config.docs > docs/configuration.md`.

The page is never edited by hand, and a test compares it with what this module would write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from kafkapy.config.broker_config import CLUSTER_DEFAULTS, SINGLE_NODE_DEFAULTS
from kafkapy.config.broker_configs import THEMES
from kafkapy.config.client_metrics_configs import CLIENT_METRICS_KEYS
from kafkapy.config.definitions import DOUBLE_MAX, INT_MAX, LONG_MAX, ConfigKey, format_value
from kafkapy.config.describe import SETTLED_AT_START
from kafkapy.config.group_configs import BROKER_SYNONYMS as GROUP_SYNONYMS
from kafkapy.config.group_configs import GROUP_KEYS
from kafkapy.config.quota_configs import BROKER_QUOTA_KEYS, IP_QUOTA_KEYS, USER_CLIENT_QUOTA_KEYS
from kafkapy.config.topic_configs import BROKER_SYNONYMS as TOPIC_SYNONYMS
from kafkapy.config.topic_configs import TOPIC_KEYS

_INTRODUCTION = """\
# Configuration

<!-- Written by `python -m kafkapy.config.docs`: change the definitions in kafkapy/config, not this page. -->

kafkapy takes Apache Kafka 4.3's own configuration keys. A value comes from the first of these that has it:

1. for a topic, a group or a client metrics subscription: what was set for it (`kafkapy topic config set`, or any Kafka tool);
2. what was set for this broker while it runs, then what was set for all brokers;
3. options of `kafkapy start` such as `--data-dir` and `--listen`, then `--set KEY=VALUE`, then the file of `--config`;
4. the default.

```
kafkapy start --config server.properties --set num.partitions=3
```

The file is in Java's .properties format, so a server.properties of Apache Kafka works. A value that cannot be used ends the
start with one line that names the key, and the file and line if it came from there. An unknown key is a warning, as is a
key that changes nothing here ([the list](#keys-that-change-nothing)).

What was set while the broker runs is kept in the cluster's metadata and is back after a restart. `kafkapy topic describe`
and every other client of DescribeConfigs show each value with its source.

## A node on its own

A node whose configuration names no controllers (neither `controller.quorum.voters` nor
`controller.quorum.bootstrap.servers`) is a cluster of one, for development. These values hold as if they stood in its file,
where they do not; they are reported as static broker configuration. A relative folder counts from where the broker was
started.

| key | value | Kafka's default |
| --- | --- | --- |
"""

_CLUSTER = """\

Such a node listens to this machine only until `--listen` or `listeners` says otherwise. Its controller lives in the same
process and needs no listener; `process.roles`, `node.id` and `controller.listener.names`, which Kafka requires, may be
left out.

## A node of a cluster

A node that names controllers has these values, unless its file has one of the two. A broker whose process ends is missed at
once, by its broken connection; they are about one that hangs or cannot be reached.

| key | value | Kafka's default |
| --- | --- | --- |
"""

_DIFFERENCES = """\

## What is different from Apache Kafka

- `advertised.listeners` may be left out even if the broker listens to all addresses: every client is told the address by
  which it reached the broker. Set it where that address is not good for others, as behind a port mapping.
- Listeners speak PLAINTEXT. A listener with another security protocol, an `authorizer.class.name`, or
  `remote.log.storage.system.enable=true` end the start, because to ignore them would not be safe.
- Classes are never loaded: keys that name one may have any value and change nothing.
- {settled} take effect at the next start only, and are reported as read-only.
- Levels of loggers (`BROKER_LOGGER`) hold until the next start. TRACE lies below Python's DEBUG, FATAL is its CRITICAL.
"""

_TABLE_HEAD = "| key | type | default | valid | {last} | meaning |\n| --- | --- | --- | --- | --- | --- |"


def page() -> str:
    """The whole page."""
    out = [_INTRODUCTION.rstrip("\n")]
    broker = {key.name: key for keys in THEMES.values() for key in keys}
    for name, value in SINGLE_NODE_DEFAULTS.items():
        out.append(f"| `{name}` | `{value}` | {_default(broker[name])} |")
    out.append(_CLUSTER.rstrip("\n"))
    for name, value in CLUSTER_DEFAULTS.items():
        out.append(f"| `{name}` | `{value}` | {_default(broker[name])} |")
    out.append(_DIFFERENCES.format(settled=" and ".join(f"`{name}`" for name in sorted(SETTLED_AT_START))))
    out += [
        "## Topics",
        "",
        "A topic without a value of its own takes the broker's.",
        "",
        _TABLE_HEAD.format(last="broker's key"),
    ]
    synonyms = {name: ", ".join(f"`{synonym}`" for synonym, _ in chain) for name, chain in TOPIC_SYNONYMS.items()}
    out += [_row(key, synonyms.get(key.name, "")) for key in TOPIC_KEYS.values() if key.honoured]
    out.append(
        "\n## Brokers\n\nA broker's key changes in the file only (read-only), for one broker at a time (per-broker),"
    )
    out.append("or for one broker or all of them (cluster-wide).")
    for theme, keys in THEMES.items():
        rows = [_row(key, key.update_mode.value) for key in keys if key.honoured]
        if rows:
            out += [f"\n### {theme}\n", _TABLE_HEAD.format(last="changes"), *rows]
    for title, heading, others in _other_resources():
        rows = [_row(key, f"`{GROUP_SYNONYMS[key.name]}`" if key.name in GROUP_SYNONYMS else "") for key in others]
        if rows:
            out += [f"\n## {title}\n", _TABLE_HEAD.format(last=heading), *rows]
    out += _idle_keys()
    return "\n".join(out) + "\n"


def _other_resources() -> Iterable[tuple[str, str, list[ConfigKey]]]:
    """Title, last column and honoured keys of all that is neither topic nor broker."""
    for title, heading, keys in (
        ("Consumer, share and streams groups", "broker's key", GROUP_KEYS),
        ("Client metrics subscriptions", "", CLIENT_METRICS_KEYS),
        ("Quotas of users and clients", "", USER_CLIENT_QUOTA_KEYS),
        ("Quotas of addresses", "", IP_QUOTA_KEYS),
    ):
        yield title, heading, [key for key in keys.values() if key.honoured]


def _idle_keys() -> Iterable[str]:
    yield "\n## Keys that change nothing\n"
    yield "These are known, checked, stored and described like all others, so that files and tools work unchanged. They"
    yield "steer threads, classes and features that kafkapy does not have."
    groups = {
        **THEMES,
        "Topics": tuple(TOPIC_KEYS.values()),
        "Consumer, share and streams groups": tuple(GROUP_KEYS.values()),
        "Client metrics subscriptions": tuple(CLIENT_METRICS_KEYS.values()),
        "Quotas": (*USER_CLIENT_QUOTA_KEYS.values(), *IP_QUOTA_KEYS.values(), *BROKER_QUOTA_KEYS.values()),
    }
    for theme, keys in groups.items():
        idle = [key for key in keys if not key.honoured]
        if idle:
            yield f"\n### {theme}: keys without effect\n"
            yield "| key | type | default | meaning in Apache Kafka |\n| --- | --- | --- | --- |"
            for key in idle:
                yield f"| `{key.name}` | {key.type.name.lower()} | {_default(key)} | {key.documentation} |"


def _row(key: ConfigKey, last: str) -> str:
    name = f"`{key.name}`" + (" (internal)" if key.internal else "")
    valid = str(key.validator or "").replace("|", "\\|")
    return f"| {name} | {key.type.name.lower()} | {_default(key)} | {valid} | {last} | {key.documentation} |"


def _default(key: ConfigKey) -> str:
    if key.required:
        return "required"
    if key.default in (INT_MAX, LONG_MAX, DOUBLE_MAX) and key.type.name != "BOOLEAN":
        return f"largest {key.type.name.lower()}"
    text = format_value(key.default)
    return "none" if text is None else f"`{text}`" if text else "empty"


if __name__ == "__main__":
    sys.stdout.write(page())
