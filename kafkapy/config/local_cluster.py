"""The `server.properties` of a cluster whose nodes all run on this machine: plain files that a person can read, change and start by hand.

    DIR/broker1.properties   the keys of node 1        DIR/broker1/   its data
    DIR/broker2.properties   ...

The voters of the metadata quorum are the first nodes: one for a cluster of one or two (two voters would need both), three up to four nodes,
five beyond. They are written down with the data, so a cluster that grows keeps the voters it was made with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkapy.config.properties import parse_properties
from kafkapy.errors import StartError

REPLICAS_MAX = 3

# What makes a node this node; settings for all of them must not say it.
OWN_KEYS = (
    "process.roles",
    "node.id",
    "broker.id",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "controller.listener.names",
    "listeners",
    "advertised.listeners",
    "inter.broker.listener.name",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "broker.rack",
)

_FILE = re.compile(r"broker(\d+)\.properties")


class Address(NamedTuple):
    """Where a node listens: for clients and brokers, and for controllers."""

    host: str
    port: int
    controller_port: int


def properties_path(folder: Path, node_id: int) -> Path:
    """Where the keys of a node are."""
    return folder / f"broker{node_id}.properties"


def data_path(folder: Path, node_id: int) -> Path:
    """Where the data of a node is. The name must not look like that of a partition, which ends with a dash and a number."""
    return folder / f"broker{node_id}"


def existing_nodes(folder: Path) -> list[int]:
    """The nodes of the cluster that lives in this folder, if any."""
    if not folder.is_dir():
        return []
    found = (_FILE.fullmatch(name) for name in os.listdir(folder))
    return sorted(int(match[1]) for match in found if match)


def voter_count(brokers: int) -> int:
    """How many of so many nodes vote: an odd number, so that none of them is there only to be waited for."""
    return next(count for count in (5, 3, 1) if count <= brokers)


def existing_voters(folder: Path) -> list[int]:
    """The voters that the cluster in this folder was made with."""
    nodes = existing_nodes(folder)
    if not nodes:
        return []
    properties = parse_properties(properties_path(folder, nodes[0]).read_text(encoding="utf-8"))
    voters = properties.get("controller.quorum.voters")
    return [int(voter.partition("@")[0]) for voter in voters.value.split(",")] if voters else []


def check_settings(settings: Mapping[str, str], origin: str) -> None:
    """Refuse keys that every node needs for itself. Raises StartError."""
    for name in settings:
        if name in OWN_KEYS:
            raise StartError(
                f"{origin}: {name} is different for each broker of a cluster, so it is not for all of them"
            )


def write_properties(
    folder: Path,
    addresses: Mapping[int, Address],
    settings: Mapping[str, str],
    *,
    racks: Sequence[str] = (),
    voters: Iterable[int] = (),
) -> list[Path]:
    """Write one file per node; returns their paths in the order of the nodes. `settings` are for all, and win over our defaults."""
    chosen = list(voters) or existing_voters(folder) or sorted(addresses)[: voter_count(len(addresses))]
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for place, node_id in enumerate(sorted(addresses)):
        rack = racks[place % len(racks)] if racks else ""
        path = properties_path(folder, node_id)
        path.write_text(_text(folder, node_id, addresses, chosen, settings, rack), encoding="utf-8")
        paths.append(path)
    return paths


def _text(
    folder: Path,
    node_id: int,
    addresses: Mapping[int, Address],
    voters: Sequence[int],
    settings: Mapping[str, str],
    rack: str,
) -> str:
    is_voter = node_id in voters
    own = addresses[node_id]
    listeners = [f"PLAINTEXT://{own.host}:{own.port}"]
    if is_voter:
        listeners.append(f"CONTROLLER://{own.host}:{own.controller_port}")
    identity = {
        "process.roles": "broker,controller" if is_voter else "broker",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(
            f"{voter}@{addresses[voter].host}:{addresses[voter].controller_port}" for voter in voters
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "advertised.listeners": listeners[0],
        "log.dirs": str(data_path(folder, node_id).absolute()),
    }
    if rack:
        identity["broker.rack"] = rack
    defaults = {key: value for key, value in replication_defaults(len(addresses)).items() if key not in settings}
    sections = [
        (f"Node {node_id} of a cluster of {len(addresses)} on this machine; written by each start of it.", identity),
        ("How many copies there are of what does not say it itself, and how many must be in sync.", defaults),
        ("What was given for all nodes.", settings),
    ]
    return "\n".join(_section(title, values) for title, values in sections if values)


def _section(title: str, values: Mapping[str, str]) -> str:
    lines = [f"{_escaped(key, '=: ')}={_escaped(value, '')}" for key, value in values.items()]
    return "\n".join([f"# {title}", *lines, ""])


def _escaped(text: str, separators: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    for separator in separators:
        escaped = escaped.replace(separator, "\\" + separator)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def replication_defaults(brokers: int) -> dict[str, str]:
    """Three copies of everything, of which two must be in sync; as many as there can be where there are fewer brokers."""
    replicas = str(min(REPLICAS_MAX, brokers))
    in_sync = str(max(1, min(REPLICAS_MAX, brokers) - 1))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }
