"""Every configuration key of a broker, from the themes in `broker/`."""

from __future__ import annotations

from kafkapy.config.broker import groups, replication, security, server, share_groups, storage, tiered, transactions
from kafkapy.config.definitions import ConfigKey, by_name

THEMES = {
    "Node, listeners, connections": server.KEYS,
    "Log": storage.KEYS,
    "Topics, replicas, quorum": replication.KEYS,
    "Groups": groups.KEYS,
    "Share and streams groups": share_groups.KEYS,
    "Transactions and quotas": transactions.KEYS,
    "Security": security.KEYS,
    "Tiered storage": tiered.KEYS,
}

BROKER_KEYS: dict[str, ConfigKey] = by_name(*THEMES.values())
