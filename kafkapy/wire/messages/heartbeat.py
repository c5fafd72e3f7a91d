"""Heartbeat (key 12): a member of a classic group is alive. REBALANCE_IN_PROGRESS tells it to join again.

Versions
- 0: the bare question.
- 1: throttle time (KIP-124).
- 2: throttled clients wait by themselves (KIP-219).
- 3: static members (KIP-345).
- 4: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
