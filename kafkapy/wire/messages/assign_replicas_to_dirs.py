"""AssignReplicasToDirs (key 73): a broker tells the controller which log directory holds which replica (KIP-858).

The controller must know, because with a directory only the replicas in it go offline.
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, uuid


class RequestPartition(Struct):
    """A replica."""

    partition_index: int = int32()


class RequestTopic(Struct):
    """Replicas of a topic."""

    topic_id: bytes = uuid()
    partitions: list[RequestPartition] = array(RequestPartition)


class RequestDirectory(Struct):
    """A log directory and the replicas in it."""

    id: bytes = uuid()
    topics: list[RequestTopic] = array(RequestTopic)


class AssignReplicasToDirsRequest(Request, key=73, versions="0", flexible="0+"):
    """These replicas are in these directories."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[RequestDirectory] = array(RequestDirectory)


class ResponsePartition(Struct):
    """How it went for one replica."""

    partition_index: int = int32()
    error_code: int = int16()


class ResponseTopic(Struct):
    """How it went in one topic."""

    topic_id: bytes = uuid()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class ResponseDirectory(Struct):
    """How it went in one log directory."""

    id: bytes = uuid()
    topics: list[ResponseTopic] = array(ResponseTopic)


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    """How it went, replica by replica."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[ResponseDirectory] = array(ResponseDirectory)
