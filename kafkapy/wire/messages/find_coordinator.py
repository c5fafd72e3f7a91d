"""FindCoordinator (key 10): which broker keeps a group, a transactional id or a share partition.

Every consumer with a group, every transactional producer, share consumers. Key types: 0 group, 1 transaction, 2 share
(whose key is group:topicId:partition and which only brokers ask for).

Versions
- 0: groups only.
- 1: the type of the key (KIP-98), throttle time (KIP-124) and error messages.
- 2: throttled clients wait by themselves (KIP-219).
- 3: flexible (KIP-482).
- 4: many keys in one request (KIP-699).
- 5: the client understands TRANSACTION_ABORTABLE (KIP-890).
- 6: share partitions (KIP-932).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class Coordinator(Struct):
    key: str = string()
    # On an error -1, with an empty host and port -1.
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="4+", ignorable=True)


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+"):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    # Up to version 3 the answer is about the one key that was asked for.
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
