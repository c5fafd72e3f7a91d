"""BrokerHeartbeat (key 63): a broker tells the controller that it lives, and asks to be unfenced or to stop.

Versions
- 0: KIP-631.
- 1: log directories that went offline (KIP-858).
- 2: log directories that take no new replicas (KIP-1066).
"""

from kafkapy.wire.schema import Request, Response, array, boolean, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Request, key=63, versions="0-2", flexible="0+"):
    """I live."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()  # A broker is unfenced once it has read as far as its own registration.
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, "1+", tag=0, tagged="1+")
    cordoned_log_dirs: list[bytes] | None = array(uuid, "2+", nullable="2+", default=None, tag=1, tagged="2+")


class BrokerHeartbeatResponse(Response, key=63, versions="0-2", flexible="0+"):
    """How the controller sees the broker."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()  # Its leaderships have moved away: it may stop now.
