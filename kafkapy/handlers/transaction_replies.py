"""Between the handlers and the transaction coordinator: an answer that may come later, and codes for older clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode
from kafkapy.handlers.wait import Wait

if TYPE_CHECKING:
    from kafkapy.coordination import Reply
    from kafkapy.handlers.context import RequestContext


def answer(context: RequestContext, reply: Reply, make_error: Callable[[ErrorCode], Any]) -> Any:
    """The response if it is there; else a wait for it, which ends with an error when the followers are too slow."""
    if reply.response is not None:
        return reply.response

    def again(expired: bool) -> Any:
        if reply.response is None and expired:
            return make_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return reply.response

    return Wait((reply,), context.now_ms + context.broker.config.request_timeout_ms, again)


def code_for(code: ErrorCode, api_version: int, first_version_with_fenced: int) -> ErrorCode:
    """The code as clients of this version know it: PRODUCER_FENCED came late to each API (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < first_version_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
