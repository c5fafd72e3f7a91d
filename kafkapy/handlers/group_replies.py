"""Between the handlers and the group coordinator: who asks, and an answer that may come later."""

from __future__ import annotations

from typing import Any

from kafkapy.coordination import Caller, Reply
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.wait import NEVER_MS, Wait


def caller(context: RequestContext) -> Caller:
    """Who asks. A group remembers the host as Java prints an address, with a slash in front."""
    return Caller(context.api_version, context.client_id or "", f"/{context.connection.client_host}", context.now_ms)


def answer(context: RequestContext, reply: Any) -> Any:
    """The response, if it is there; else a wait for the Reply."""
    if not isinstance(reply, Reply):
        return reply
    if reply.response is not None:
        return reply.response

    def again(expired: bool) -> Any:
        assert not expired, "a coordinator's answer outlasted its timers"
        return reply.response

    # The coordinator has its own timers for everything that anybody waits for.
    return Wait((reply,), context.now_ms + NEVER_MS, again)
