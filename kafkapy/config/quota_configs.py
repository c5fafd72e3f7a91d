"""Quotas are stored like configurations: those of the broker itself, of users and clients, and of addresses."""

from __future__ import annotations

from kafkapy.config.definitions import DOUBLE, INT, INT_MAX, LONG, LONG_MAX, ConfigKey, UpdateMode, by_name
from kafkapy.config.validators import at_least

# Dynamic keys of a broker that no properties file has.
BROKER_QUOTA_KEYS: dict[str, ConfigKey] = by_name(
    (
        ConfigKey(
            "leader.replication.throttled.rate",
            LONG,
            LONG_MAX,
            UpdateMode.CLUSTER_WIDE,
            "How many bytes per second leaders send to throttled followers.",
            at_least(0),
            honoured=True,
        ),
        ConfigKey(
            "follower.replication.throttled.rate",
            LONG,
            LONG_MAX,
            UpdateMode.CLUSTER_WIDE,
            "How many bytes per second throttled followers fetch.",
            at_least(0),
            honoured=True,
        ),
        ConfigKey(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            LONG,
            LONG_MAX,
            UpdateMode.CLUSTER_WIDE,
            "How many bytes per second moves between folders may copy.",
            at_least(0),
        ),
    )
)

USER_CLIENT_QUOTA_KEYS: dict[str, ConfigKey] = by_name(
    (
        ConfigKey(
            "producer_byte_rate",
            LONG,
            LONG_MAX,
            UpdateMode.CLUSTER_WIDE,
            "How many bytes per second a user or client may produce.",
        ),
        ConfigKey(
            "consumer_byte_rate",
            LONG,
            LONG_MAX,
            UpdateMode.CLUSTER_WIDE,
            "How many bytes per second a user or client may fetch.",
        ),
        ConfigKey(
            "request_percentage",
            DOUBLE,
            float(INT_MAX),
            UpdateMode.CLUSTER_WIDE,
            "The share of a processor, in percent, that a user or client may take.",
        ),
        ConfigKey(
            "controller_mutation_rate",
            DOUBLE,
            float(INT_MAX),
            UpdateMode.CLUSTER_WIDE,
            "How many partitions per second a user or client may create and delete.",
        ),
    )
)

IP_QUOTA_KEYS: dict[str, ConfigKey] = by_name(
    (
        ConfigKey(
            "connection_creation_rate",
            INT,
            INT_MAX,
            UpdateMode.CLUSTER_WIDE,
            "How many connections per second an address may open.",
            at_least(0),
        ),
    )
)
