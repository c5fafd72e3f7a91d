"""Offsets and classic consumer groups as `__consumer_offsets` stores them; newer groups have modules of their own.

The topic is compacted: a record's key says whose state it is, its value is the newest state, and a null value removes
it. Both are framed (see `record_framing`): the key begins with the record's type, the value with its version. Consumer
groups (KIP-848) are in `consumer_group_records`, share groups in `share_group_records`, streams groups in
`streams_group_records`; all of them live in the same topic.
"""

from kafkapy.wire.schema import Record, Struct, array, bytes_, int32, int64, string, uuid


class OffsetCommitKey(Record, type=1, versions="0"):
    """A committed offset of one partition in one group of any kind."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Record, type=1, versions="0-4", flexible="4+"):
    """A committed offset.

    Version 1 adds an expiry of the commit's own.
    Version 2 drops it: the broker's retention counts.
    Version 3 adds the leader epoch.
    Version 4 uses the compact encodings and adds the topic id. Kafka 4.3 writes it, except that a commit which carries an
    expiry of its own is still written as version 1.
    """

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()  # The client's own note.
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", ignorable=True, tag=0, tagged="4+")


class LegacyOffsetCommitKey(Record, type=0, versions="0"):
    """The key of OffsetCommit as very old brokers wrote it."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Record, type=0, versions="0"):
    """A committed offset as very old brokers wrote it."""

    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


class GroupMetadataKey(Record, type=2, versions="0"):
    """A classic group."""

    group: str = string()


class MemberMetadata(Struct):
    """A member of a classic group."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytes_()  # The member's metadata for the protocol that was chosen; opaque to the broker.
    assignment: bytes = bytes_()  # What the group's leader gave to the member; as opaque.


class GroupMetadataValue(Record, type=2, versions="0-4", flexible="4+"):
    """A classic group after a rebalance.

    Version 1 adds the members' rebalance timeout.
    Version 2 adds since when the group is in its state.
    Version 3 adds the members' group instance id (static membership). Kafka 4.3 writes it.
    Version 4 uses the compact encodings.
    """

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")  # A member id; null in an empty group, like the protocol.
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
