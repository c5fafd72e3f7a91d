"""What a decision consists of: records for the log, and what happens once the log has them.

A coordinator never answers on its own promise. It returns an `Outcome`; the shard appends the records, replays them,
and calls `done` when the high watermark covers them, or with the error that kept them out. Answers go through a
`Reply`, because the one who asked may have to wait for others (JoinGroup waits for the whole group).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from kafkapy.errors import ErrorCode

# A key and a value as the coordinator's internal topic stores them; no value removes what the key names.
Record = tuple[bytes, bytes | None]

# Called with NONE once the records are committed, or with the error; it may have to write in its turn.
Done = Callable[[ErrorCode, int], "Outcome | None"]


class Outcome(NamedTuple):
    """The records to append, and what to do when they are committed (at once, if there are none)."""

    records: Sequence[Record] = ()
    done: Done | None = None


NOTHING = Outcome()


class Reply:
    """A place for one answer. Who waits for it waits on the object itself as the key."""

    __slots__ = ("_wake", "response")

    def __init__(self, wake: Callable[[Hashable], None]) -> None:
        self.response: Any = None
        self._wake = wake

    def give(self, response: Any) -> None:
        """Answer; each reply is given once."""
        assert self.response is None, "this request was answered before"
        self.response = response
        self._wake(self)


class Caller(NamedTuple):
    """Who sent a request, in which version of its API, and when."""

    api_version: int
    client_id: str
    client_host: str
    now_ms: int


# What the log answers, as the clients of a coordinator understand it: they look for the coordinator again, or give up.
_CODE_BY_LOG_CODE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_code(code: ErrorCode) -> ErrorCode:
    """The code to answer with when the log refused with this one."""
    return _CODE_BY_LOG_CODE.get(code, code)
