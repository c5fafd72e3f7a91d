"""Formats data folders: writes down whose they are before a node starts on them, as `kafka-storage format` does.

A node also formats new folders by itself, at its start. To do it on purpose says that a folder is meant to be empty, which matters for a controller
among several: see raft/voter_identity.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kafkapy.errors import StartError, StorageError
from kafkapy.log.checkpoints import parse_uuid, read_meta_properties, write_meta_properties
from kafkapy.log.filesystem import storage_errors
from kafkapy.log.manager import LogManager
from kafkapy.raft.voter_identity import VoterIdentity, note_unformatted
from kafkapy.raft.voter_session import Standing
from kafkapy.server.metadata_follower import new_cluster_id
from kafkapy.types import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig


class Formatted(NamedTuple):
    """What was done."""

    cluster_id: str
    formatted: list[str]
    already: list[str]


def format_folders(
    config: BrokerConfig,
    cluster_id: str | None,
    *,
    ignore_formatted: bool = False,
    join: bool = False,
    rejoin: bool = False,
) -> Formatted:
    """Format the data folders of a node that doesn't run. Raises StartError, with one line that says what to do, and changes nothing then."""
    if cluster_id is not None:
        _check_cluster_id(cluster_id)
    try:
        logs = LogManager(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))
        try:
            fs = logs.pool.fs
            known = {folder.path: read_meta_properties(fs, folder.path) for folder in logs.folders}
            already = [path for path, properties in known.items() if properties is not None]
            found = {
                properties["cluster.id"] for properties in known.values() if properties and "cluster.id" in properties
            }
            if already and not ignore_formatted and not rejoin:
                raise StartError(
                    f"{already[0]} is formatted already; --ignore-formatted formats the other folders only"
                )
            if cluster_id is not None and found - {cluster_id}:
                raise StartError(f"{already[0]} belongs to cluster {min(found)}, not to {cluster_id}")
            chosen = cluster_id or (min(found) if found else new_cluster_id(config))
            if rejoin:
                _mark_rejoining(config)
            elif join:
                note_unformatted(config.metadata_log_dir)
            fresh = [path for path in known if known[path] is None]
            for path in fresh:
                write_meta_properties(fs, path, chosen, config.node_id, os.urandom(16))
        finally:
            logs.unlock()
    except StorageError as error:
        raise StartError(str(error)) from error
    return Formatted(chosen, fresh, already)


def _mark_rejoining(config: BrokerConfig) -> None:
    """Have this voter come back with an empty disk: the others will send it everything before it counts again."""
    if not config.is_controller or len(config.controller_quorum_voters) < 2:
        raise StartError("--rejoin is for a controller among several; this node's configuration names no others")
    folder = f"{config.metadata_log_dir}/{CLUSTER_METADATA_TOPIC}-0"
    with storage_errors(folder):
        os.makedirs(folder, exist_ok=True)
    identity = VoterIdentity(folder)
    if identity.standing is Standing.MEMBER and not identity.journal_is_new:
        raise StartError(f"{folder} has this controller's journal, so it can go on without --rejoin")
    identity.become(Standing.REJOINING)


def _check_cluster_id(cluster_id: str) -> None:
    try:
        parse_uuid(cluster_id)
    except ValueError as error:
        raise StartError(
            f"--cluster-id {cluster_id}: expected a uuid as Kafka writes it, 22 letters and digits"
        ) from error
