"""Structures that are no request, response or record of their own: blobs in other messages, control records, files.

- ConsumerProtocolSubscription and ConsumerProtocolAssignment are what consumers put into JoinGroup and SyncGroup. The
  broker mostly passes them on. DefaultPrincipalData travels in an Envelope. Their stored form begins with an int16
  version.
- ControlRecordTypeSchema is the key of every control record, after an int16 version; the value depends on the type:
  0 abort and 1 commit have an EndTxnMarker after an int16 version; 2 LeaderChangeMessage, 3 SnapshotHeaderRecord,
  4 SnapshotFooterRecord, 5 KRaftVersionRecord and 6 VotersRecord hold the version as their first field.
- QuorumStateData is the JSON of the file `quorum-state` in the metadata log's folder.
"""

from kafkapy.wire.schema import Data, Struct, array, boolean, bytes_, int16, int32, int64, string, struct, uint16, uuid


class TopicPartitions(Struct):
    """Partitions of a topic that a consumer is given, or owns."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """What a consumer wants to read.

    Version 1 adds the partitions that it owns, for cooperative rebalancing.
    Version 2 adds the generation in which it got them.
    Version 3 adds the rack.
    """

    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """What a consumer shall read. The versions go with those of the subscription; nothing was added."""

    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = bytes_(nullable="0+", default=None)


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """Who has sent a request that a broker forwards to the controller."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


class ControlRecordTypeSchema(Data, versions="0"):
    """The key of a control record."""

    type: int = int16()


class EndTxnMarker(Data, versions="0"):
    """The value of the control record that ends a transaction in a partition."""

    coordinator_epoch: int = int32()


class ChangeVoter(Struct):
    """A voter at the time of an election."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """The first record of a new leader of the metadata log.

    Version 1 adds the voters' directory ids.
    """

    version: int = int16()
    leader_id: int = int32()
    voters: list[ChangeVoter] = array(ChangeVoter)
    granting_voters: list[ChangeVoter] = array(ChangeVoter)


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """The first record of a snapshot of the metadata log."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """The last record of a snapshot: without it the snapshot isn't complete."""

    version: int = int16()


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """The level of the feature kraft.version: from 1 on the voters are in the log, not in the configuration."""

    version: int = int16()
    k_raft_version: int = int16()


class KRaftVersionFeature(Struct):
    """The range of kraft.version that a voter can run."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class Endpoint(Struct):
    """Where one listener of a voter can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class Voter(Struct):
    """A controller that votes: its id, its disk, where it listens and what it can run."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class VotersRecord(Data, versions="0", flexible="0+"):
    """The voters of the metadata quorum, from this record on."""

    version: int = int16()
    voters: list[Voter] = array(Voter)


class QuorumVoter(Struct):
    """A voter by its id."""

    voter_id: int = int32("0")


class QuorumStateData(Data, versions="0-1", flexible="0+"):
    """What a voter must remember of its votes over a restart.

    Version 1 adds the directory id of the candidate, and drops the cluster's id, the applied offset and the voters.
    """

    cluster_id: str = string("0")
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    voted_id: int = int32(default=-1)
    voted_directory_id: bytes = uuid("1+")
    applied_offset: int = int64("0")
    current_voters: list[QuorumVoter] | None = array(QuorumVoter, "0", nullable="0")
