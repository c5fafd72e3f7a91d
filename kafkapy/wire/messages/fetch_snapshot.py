"""FetchSnapshot (key 59): copies a snapshot of the metadata log to a node that lags too far behind for the log itself.

Versions
- 0: KIP-630.
- 1: the directory id of the node, and where the leader listens (KIP-853).
"""

from typing import Any

from kafkapy.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uint16,
    uuid,
)


class SnapshotId(Struct):
    """A snapshot holds everything below its end offset; the epoch is that of the last record in it."""

    end_offset: int = int64()
    epoch: int = int32()


class RequestPartition(Struct):
    """A part of a snapshot."""

    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()  # In the snapshot's file.
    replica_directory_id: bytes = uuid("1+", ignorable=True, tag=0, tagged="1+")


class RequestTopic(Struct):
    """Parts of snapshots of one topic."""

    name: str = string()
    partitions: list[RequestPartition] = array(RequestPartition)


class FetchSnapshotRequest(Request, key=59, versions="0-1", flexible="0+"):
    """Send me these parts."""

    cluster_id: str | None = string(nullable="0+", default=None, tag=0, tagged="0+")
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2147483647)
    topics: list[RequestTopic] = array(RequestTopic)


class LeaderIdAndEpoch(Struct):
    """The leader that the answering node knows."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class ResponsePartition(Struct):
    """A part of a snapshot."""

    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0, tagged="0+")
    size: int = int64()  # Of the whole file.
    position: int = int64()
    # Bytes of the file: they may begin and end within a batch.
    unaligned_records: Any = records()


class ResponseTopic(Struct):
    """Parts of snapshots of one topic."""

    name: str = string()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class NodeEndpoint(Struct):
    """Where a leader named above can be reached."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    """The parts."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    topics: list[ResponseTopic] = array(ResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, tagged="1+")
