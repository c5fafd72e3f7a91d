"""Between the handlers and the controller: submit a decision, answer when it is committed and published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.wait import Wait
from kafkapy.raft.controller import ticket_error
from kafkapy.raft.quorum import Outcome

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.raft.decision import Decision
    from kafkapy.raft.image import MetadataImage


def decide(
    context: RequestContext,
    timeout_ms: int,
    make: Callable[[MetadataImage], Decision],
    refuse: Callable[[ErrorCode, str | None], Any],
) -> Any:
    """Decide on the controller's image and answer with the decision's response once its records count.

    `refuse` makes the answer for a decision that could not be made or did not get through.
    """
    return decide_all(context, timeout_ms, lambda image: (make(image),), refuse)


def decide_all(
    context: RequestContext,
    timeout_ms: int,
    make: Callable[[MetadataImage], Sequence[Decision]],
    refuse: Callable[[ErrorCode, str | None], Any],
) -> Any:
    """The same for what may need several decisions: the last one's response is the answer."""
    controller = context.broker.controller
    ticket = None
    try:
        decisions = make(controller.require_active())
        for decision in decisions:
            ticket = controller.submit(decision, context.now_ms)
    except KafkaError as error:
        return refuse(error.code, error.message)
    response = decisions[-1].response
    if ticket is None:
        return response
    last = ticket

    def again(expired: bool) -> Any:
        if last.outcome is Outcome.PENDING and not expired:
            return None
        failure = ticket_error(last, expired)
        return response if failure is None else refuse(failure, None)

    return Wait((last,), context.now_ms + max(0, timeout_ms), again)
