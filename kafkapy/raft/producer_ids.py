"""Producer ids: no two producers of a cluster ever get the same one.

The controller gives whole blocks to brokers, one record each; a broker hands out the ids of its block without asking anybody. The next
block is asked for when the current one is nearly used up, so a producer rarely waits.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import MetadataImage
from kafkapy.wire.metadata_records import ProducerIdsRecord

BLOCK_SIZE = 1000

# Ask for the next block when this many ids are left.
LOW_MARK = 100


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision:
    """Give the next block to a broker; the response is its first id."""
    first = image.next_producer_id
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return Decision([record], first)


class ProducerIds:
    """The ids that this broker may hand out. `request_block` is called when another block is needed; `add_block` brings it."""

    def __init__(self, request_block: Callable[[], None]) -> None:
        self._request_block = request_block
        self._requested = False
        self._next = 0
        self._end = 0
        self._spare: int | None = None

    def take(self) -> int:
        """An id that nobody has. KafkaError(COORDINATOR_LOAD_IN_PROGRESS), which clients retry, while a block is on its way."""
        if self._next == self._end and self._spare is not None:
            self._next, self._end, self._spare = self._spare, self._spare + BLOCK_SIZE, None
        if self._end - self._next <= LOW_MARK and self._spare is None and not self._requested:
            self._requested = True
            self._request_block()
        if self._next == self._end:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        taken = self._next
        self._next += 1
        return taken

    def add_block(self, first: int) -> None:
        """A block has been committed for this broker."""
        self._requested = False
        self._spare = first

    def request_failed(self) -> None:
        """No block came; the next `take` asks again."""
        self._requested = False
