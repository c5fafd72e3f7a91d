"""The active controller: it decides on an image that is ahead of the committed one, so that decisions need not wait for each other.

A decision is data: records and the answer that is due once they are committed. The functions that decide are pure and stand in one module
per theme (topics.py, configs.py, ...). `submit` proposes the records and replays them at once into the speculative image, on which the
next decision is made. If the leadership is lost then all that was in flight has an unknown end, and the image falls back to the
committed one.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.broker_sessions import BrokerSessions
from kafkapy.raft.decision import Decision, UuidSource
from kafkapy.raft.delta import MetadataDelta
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.metadata_batches import frame_records
from kafkapy.raft.quorum import Outcome, Quorum, Ticket
from kafkapy.wire.metadata_records import METADATA_VERSION_LATEST

log = logging.getLogger(__name__)


def random_uuid() -> bytes:
    """A version 4 uuid, which is never one of those that Kafka reserves."""
    drawn = bytearray(os.urandom(16))
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    return bytes(drawn)


class Controller:
    """This node's part in deciding. Without an epoch it isn't the active controller, and says so."""

    def __init__(
        self,
        quorum: Quorum,
        cluster_id: str,
        config: Callable[[], BrokerConfig],
        new_uuid: UuidSource = random_uuid,
    ) -> None:
        """`config` tells the broker's configuration as it is now; `new_uuid` draws the ids of topics."""
        self.image = MetadataImage(cluster_id)
        self.config = config
        self.new_uuid = new_uuid
        self.sessions = BrokerSessions()
        self.epoch: int | None = None
        self._quorum = quorum
        self._in_flight: deque[Ticket] = deque()

    @property
    def is_active(self) -> bool:
        """Whether it may decide."""
        return self.epoch is not None

    def require_active(self) -> MetadataImage:
        """The image to decide on; KafkaError NOT_CONTROLLER where another node decides."""
        if self.epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The active controller appears to be another node.")
        return self.image

    def activate(self, epoch: int, committed: MetadataImage) -> None:
        """The quorum has elected this node, and everything committed before is in `committed`."""
        self.epoch = epoch
        self.image = committed

    def resign(self, committed: MetadataImage) -> None:
        """Another node decides from now on."""
        self.epoch = None
        self.image = committed

    def settle(self, ticket: Ticket) -> None:
        """The outcome of a proposal is known. They settle in the order in which they were made."""
        if self._in_flight and self._in_flight[0] is ticket:
            self._in_flight.popleft()

    def submit(self, decision: Decision, now_ms: int) -> Ticket | None:
        """Propose the records. The answer may leave when the ticket returned is committed, or at once if there is none.

        A decision without records (a refusal, say) rests on the decisions in flight, so it waits for the last of them: what it
        tells is then true for everybody.
        """
        self.require_active()
        assert self.epoch is not None
        for note in decision.notes:
            log.warning("%s", note)
        if not decision.records:
            return self._in_flight[-1] if self._in_flight else None
        image = self.image
        base_offset = image.next_offset
        ticket = Ticket(
            frame_records(decision.records, image.metadata_version or METADATA_VERSION_LATEST),
            self.epoch,
            base_offset,
            now_ms,
        )
        delta = MetadataDelta(image)
        for record in decision.records:
            delta.replay(record)
        self.image = delta.apply(base_offset + len(decision.records) - 1, self.epoch, now_ms)
        self._in_flight.append(ticket)
        self._quorum.propose(ticket)
        return ticket


def ticket_error(ticket: Ticket, expired: bool) -> ErrorCode | None:
    """What to answer instead of the response; None where it is committed. Not to be asked while it is pending and in time."""
    if ticket.outcome is Outcome.COMMITTED:
        return None
    if ticket.outcome is Outcome.NOT_CONTROLLER:
        return ErrorCode.NOT_CONTROLLER
    return ErrorCode.REQUEST_TIMED_OUT
