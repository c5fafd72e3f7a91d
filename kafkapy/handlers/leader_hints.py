"""Who leads a partition instead of us, said along with the refusal (KIP-951), so that the client need not ask for metadata first.

Produce tells it from version 10 on, Fetch from version 12 (the leader) and 16 (its address).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode
from kafkapy.handlers.cluster_view import endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkapy.handlers.context import RequestContext

# The refusals that a client answers by looking for another leader.
MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def add_leader_hint(context: RequestContext, answer: Any, topic: str, index: int) -> None:
    """Write into a partition's refusal who leads it, if that is why it was refused and the leader is known."""
    if answer.error_code not in MOVED:
        return
    known = context.broker.image.topics.partition(topic, index)
    if known is not None and known.leader >= 0:
        answer.current_leader.leader_id = known.leader
        answer.current_leader.leader_epoch = known.leader_epoch


def endpoints_of(context: RequestContext, leaders: Iterable[int], node_endpoint: Any) -> list[Any]:
    """The addresses of these leaders on the listener that the client uses, as `node_endpoint` objects."""
    found = []
    for leader in sorted({leader for leader in leaders if leader >= 0}):
        registration = context.broker.image.brokers.get(leader)
        place = endpoint(context, registration) if registration is not None else None
        if place is not None:
            found.append(node_endpoint(node_id=leader, host=place.host, port=place.port, rack=place.rack))
    return found
