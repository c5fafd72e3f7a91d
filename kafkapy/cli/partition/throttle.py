"""How fast a move may copy: Kafka's own replication throttles, set for its brokers and replicas and taken away at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kafkapy.cli.failures import finish
from kafkapy.cli.partition.plan import Change

if TYPE_CHECKING:
    from kafkapy.client.client import Client

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


def limit(client: Client, changes: Sequence[Change], rate: int) -> None:
    """So many bytes a second out of each broker that has the partitions, and into each that gets them."""
    from kafkapy.client.admin import BROKER, TOPIC, alter_configs

    by_topic: dict[str, tuple[list[str], list[str]]] = {}
    for change in changes:
        leaders, followers = by_topic.setdefault(change.partition.topic, ([], []))
        leaders += [f"{change.partition.partition}:{broker}" for broker in change.before]
        followers += [f"{change.partition.partition}:{broker}" for broker in change.adding]
    for topic, (leaders, followers) in by_topic.items():
        keys = {LEADER_REPLICAS: ",".join(leaders), FOLLOWER_REPLICAS: ",".join(followers)}
        finish(result.error for result in alter_configs(client, TOPIC, [topic], keys))
    brokers = sorted({str(broker) for change in changes for broker in (*change.before, *change.after)}, key=int)
    keys = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    finish(result.error for result in alter_configs(client, BROKER, brokers, keys))


def clear(client: Client, topics: Iterable[str]) -> None:
    """Take the throttles away from these topics and, where one was set, from all brokers."""
    from kafkapy.client.admin import BROKER, TOPIC, alter_configs, describe_cluster, describe_configs

    throttled = [
        topic
        for topic in topics
        if any(
            entry.source == "topic"
            for entry in describe_configs(client, TOPIC, topic, [LEADER_REPLICAS, FOLLOWER_REPLICAS])
        )
    ]
    if not throttled:
        return
    finish(
        result.error
        for result in alter_configs(client, TOPIC, throttled, {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None})
    )
    brokers = [str(broker.id) for broker in describe_cluster(client).brokers if not broker.fenced]
    finish(result.error for result in alter_configs(client, BROKER, brokers, {LEADER_RATE: None, FOLLOWER_RATE: None}))
