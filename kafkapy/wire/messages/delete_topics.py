"""DeleteTopics (key 20): Admin and tools. Any broker takes it; the controller decides.

Versions
- 1: throttle time (KIP-124).
- 2: throttled clients wait by themselves (KIP-219).
- 3: TOPIC_DELETION_DISABLED where delete.topic.enable is false (KIP-322).
- 4: flexible (KIP-482).
- 5: error messages; a topic may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
- 6: by name or by id, in a list of its own (KIP-516).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    """Exactly one of the two is set."""

    name: str | None = string(nullable="6+", default=None)
    topic_id: bytes = uuid()


class DeletableTopicResult(Struct):
    # Null for an id that is unknown, or whose name the client may not see.
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "1-5", ignorable=True)
    timeout_ms: int = int32()


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32(ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
