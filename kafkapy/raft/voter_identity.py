"""Which disk is whose: a voter remembers the directory id of each other voter, and what its own word counts.

A voter that has lost its disk, or comes with another one, has forgotten its votes and entries that were counted as safe. If it went on as if it were
new, then together with a voter that was late it could elect a leader without the history, and acknowledged changes would be gone everywhere. So:

- At the first contact each voter writes down the other one's directory id. One that comes with another id later is refused; so is one that comes with
  the known id but without a journal, unless that is its very first start.
- A voter counts (it votes, and its acknowledgements commit) while it is a MEMBER. A folder that was formatted on purpose is one. A folder that the
  broker has formatted by itself makes a NEWCOMER: that one waits until every other voter was heard once and none of them knew it with another disk.
- A voter without entries that meets one with entries is JOINING: it votes and counts, so that a cluster can grow from one controller to three, but it
  does not stand until the leader says that it has everything. Else two empty ones could elect one of themselves.
- `kafkapy format --rejoin` makes a voter REJOINING: the others take its new directory id in place of the old one, but it is only sent the log.
  It becomes a member when it was in contact with all others and the leader says that it has everything that is committed, an entry included that
  was proposed after it came and committed without counting it. Whatever the lost disk had acknowledged or voted for is past then: the entries are
  in the leader's log, a majority follows the leader's term, and candidates that had its vote have stepped back at the first contact.

All of that is in one small file, replaced as a whole and synced, `quorum.voters` beside the journal, in Java's properties format:

    version=1
    standing=member | newcomer | rejoining | joining
    voter.ID=DIRECTORY_ID,INCARNATION            base64; the incarnation is the one of the first contact
"""

from __future__ import annotations

import os

from kafkapy.errors import StorageError
from kafkapy.log.checkpoints import (
    decode_properties,
    encode_properties,
    format_uuid,
    parse_uuid,
    read_meta_properties,
    write_meta_properties,
)
from kafkapy.log.filesystem import OsFilesystem, read_file, replace_file, storage_errors
from kafkapy.raft.entries import JOURNAL_NAME, SNAPSHOT_NAME
from kafkapy.raft.voter_session import Claims, Refusal, Standing
from kafkapy.types import CLUSTER_METADATA_TOPIC

FILE_NAME = "quorum.voters"


class VoterIdentity:
    """This voter's standing and what it knows of the others."""

    def __init__(self, folder: str) -> None:
        """`folder` is the one of the metadata log. Without a file this voter is a member that has met nobody."""
        self.path = os.path.join(folder, FILE_NAME)
        self.standing = Standing.MEMBER
        self.known: dict[int, tuple[bytes, bytes]] = {}
        self.journal_is_new = not any(
            os.path.exists(os.path.join(folder, name)) for name in (JOURNAL_NAME, SNAPSHOT_NAME)
        )
        if os.path.exists(self.path):
            self._load()

    def judge(self, claims: Claims) -> Refusal | None:
        """Whether a voter that has proven to belong to the cluster comes with the disk that it should have."""
        known = self.known.get(claims.node_id)
        if known is None or claims.standing is Standing.REJOINING:
            return None
        directory_id, incarnation = known
        if claims.directory_id != directory_id:
            return Refusal.OTHER_DISK
        if claims.journal_is_new and claims.incarnation != incarnation:
            return Refusal.LOST_JOURNAL
        return None

    def note(self, claims: Claims) -> None:
        """Remember a voter that was not refused, durably, before its link counts."""
        known = self.known.get(claims.node_id)
        if known is None or known[0] != claims.directory_id:
            self.known[claims.node_id] = (claims.directory_id, claims.incarnation)
            self.write()

    def become(self, standing: Standing) -> None:
        """Change what this voter's word counts, durably."""
        if standing is not self.standing:
            self.standing = standing
            self.write()

    def write(self) -> None:
        """Replace the file."""
        properties = {"version": "1", "standing": self.standing.name.lower()}
        for node_id, ids in self.known.items():
            properties[f"voter.{node_id}"] = ",".join(map(format_uuid, ids))
        with storage_errors(self.path):
            replace_file(OsFilesystem(), self.path, encode_properties(properties))

    def _load(self) -> None:
        with storage_errors(self.path):
            data = read_file(OsFilesystem(), self.path)
        try:
            properties = decode_properties(data)
            if properties.pop("version", None) != "1":
                raise ValueError("its version is not 1")
            self.standing = Standing[properties.pop("standing").upper()]
            for key, value in properties.items():
                directory_id, incarnation = value.split(",")
                self.known[int(key.removeprefix("voter."))] = (parse_uuid(directory_id), parse_uuid(incarnation))
        except (KeyError, ValueError) as error:
            raise StorageError(self.path, f"cannot be read: {error}") from error


def note_unformatted(metadata_dir: str) -> None:
    """Called before a broker formats a voter's folder by itself: from then on it is a newcomer, however this start ends."""
    if read_meta_properties(OsFilesystem(), metadata_dir) is not None:
        return
    folder = f"{metadata_dir}/{CLUSTER_METADATA_TOPIC}-0"
    with storage_errors(folder):
        os.makedirs(folder, exist_ok=True)
    identity = VoterIdentity(folder)
    identity.standing = Standing.NEWCOMER
    identity.write()


def directory_id(metadata_dir: str, cluster_id: str, node_id: int) -> bytes:
    """The id of the folder with the metadata log; where it has none, as metadata.log.dir apart from log.dirs may be, it gets one."""
    properties = read_meta_properties(OsFilesystem(), metadata_dir)
    if properties is None or "directory.id" not in properties:
        drawn = os.urandom(16)
        write_meta_properties(OsFilesystem(), metadata_dir, cluster_id, node_id, drawn)
        return drawn
    return parse_uuid(properties["directory.id"])


def explain(refusal: Refusal, own: Claims, peer: Claims | None, *, told: bool) -> str:
    """What is wrong and what to do, for the log of either side. `told`: the peer refuses us, else we refuse it."""
    if peer is None:
        return "it speaks another version of the voters' protocol: run the same version of kafkapy on all controllers"
    text = {
        Refusal.VERSION: "it speaks another version of the voters' protocol: run the same version of kafkapy on all controllers",
        Refusal.CLUSTER_ID: f"it belongs to cluster {peer.cluster_id}, this node to {own.cluster_id}: "
        "check controller.quorum.voters and the cluster.id in meta.properties of both",
        Refusal.VOTERS: f"its controller.quorum.voters are {peer.voters}, here they are {own.voters}: "
        "give all controllers the same list",
        Refusal.NOT_A_VOTER: f"node {peer.node_id} is not in controller.quorum.voters ({own.voters})",
        Refusal.SAME_ID: f"both have node.id {own.node_id}: give each node an id of its own",
        Refusal.WRONG_NODE: f"node {peer.node_id} answers there: correct its address in controller.quorum.voters ({own.voters})",
        Refusal.SECRET: "the secrets differ: give all controllers the same kafkapy.quorum.secret",
        Refusal.TWICE: f"node {(own if told else peer).node_id} is connected already, from another process: "
        "give each node a node.id and a data folder of its own",
    }.get(refusal)
    if text is not None:
        return text
    who = own if told else peer
    whose = "this node" if told else f"node {who.node_id}"
    found = f"disk {format_uuid(who.directory_id)}"
    if refusal is Refusal.LOST_JOURNAL:
        found += ", which has lost its quorum journal"
    return (
        f"{whose} was known with another state of its disk than it has now ({found}), so its votes and part of the metadata may be forgotten. "
        f"Give it its disk back; if that is lost, run `kafkapy format --rejoin` with the configuration of node {who.node_id} and start it again"
    )
