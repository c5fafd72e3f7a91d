"""Which replicas are in sync: what a leader asks the controller for, and what it does with the answer.

    shrink   a follower was not at the leader's end for longer than replica.lag.time.max.ms (or, where that is set, lacks more than so
             many records): the leader asks for an ISR without it. Until the controller agrees, the high watermark waits for it.
    expand   a follower outside has reached the high watermark and this leader's epoch, and its broker lives: the leader asks for an ISR
             with it. From the asking on, the high watermark holds for it too, because the controller may have agreed already.

One request is on its way at a time, with everything that has gathered meanwhile; one proposal per partition. What isn't answered is sent again,
as it was; what is refused is forgotten, and made again from what is true then. An answer counts only if its partition epoch isn't older than what
the metadata has told: the two race.

The cost is that of what happens: only partitions that grew since all replicas in sync were last seen at their end are looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartition,
    RequestTopic,
    ResponsePartition,
)

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition

log = logging.getLogger("kafkapy.isr")

ALTER_PARTITION_VERSION = 3  # in which the replicas in sync carry their broker epochs
RETRY_MS_MIN = 50
RETRY_MS_MAX = 1000
# A proposal that was refused is not made again before this is over, unless the partition changes.
REFUSED_MS = 500
PARTITIONS_PER_REQUEST_MAX = 2000
NO_LAG_LIMIT = -1
# A line of the log names so many partitions; a broker that comes back joins thousands at once.
NAMED_IN_LOG_MAX = 3

# The controller knows something about the partition that we don't yet. The metadata will bring it; until then our proposal may have been
# accepted, by an answer that was lost, and keeps holding the high watermark.
# Nor does one that knows less than we do, or that has not looked at the proposal, say anything about what became of it elsewhere.
_WAIT_FOR_METADATA = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class Proposal(NamedTuple):
    """An ISR that is wanted, and on what that is based.

    The broker epochs are those of the lives that had caught up: one that has begun since may have lost records, and must not be taken for them
    when the request is sent again.
    """

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class IsrTracker:
    """The in-sync replicas of all partitions that this broker leads. It watches them (see Partition.watchers)."""

    def __init__(
        self,
        node_id: int,
        lag_ms_max: int,
        *,
        is_eligible: Callable[[int, int], bool],
        committed: Callable[[Partition], None],
        kick: Callable[[], None],
        lag_messages_max: int = NO_LAG_LIMIT,
    ) -> None:
        """The callbacks.

        `is_eligible(replica, broker epoch of its last fetch)`: whether the metadata lets it be in an ISR.
        `committed(partition)`: its high watermark rose.
        `kick()`: `next_request` has something new.
        """
        self.node_id = node_id
        self.lag_ms_max = lag_ms_max
        self.lag_messages_max = lag_messages_max
        self._is_eligible = is_eligible
        self._committed = committed
        self._kick = kick
        self._suspects: dict[Partition, None] = {}
        self._proposals: dict[Partition, Proposal] = {}
        self._sent: dict[tuple[bytes, int], tuple[Partition, Proposal]] = {}
        self._held_until: dict[Partition, tuple[int, int]] = {}  # (partition epoch of the refusal, time)
        self._retry_at_ms = 0
        self._retry_ms = RETRY_MS_MIN

    # What happens to partitions.

    def has_news(self, partition: Partition) -> None:
        """It grew, or its role changed: some replica may be behind from now on."""
        if partition.is_leader:
            self._suspects[partition] = None
        else:
            self.forget(partition)

    def high_watermark_rose(self, partition: Partition) -> None:
        """All replicas in sync moved; the next check sees where they are. Those who wait for the records are told."""
        self._committed(partition)

    def forget(self, partition: Partition) -> None:
        """This broker does not lead it any more."""
        self._suspects.pop(partition, None)
        self._proposals.pop(partition, None)
        self._held_until.pop(partition, None)

    def outsider_fetched(self, partition: Partition, replica_id: int, now_ms: int) -> None:
        """A replica out of sync has fetched: ask for it to be taken in, once it has caught up."""
        if partition in self._proposals or self._is_held(partition, now_ms):
            return
        if replica_id not in partition.may_join_isr():
            return
        if not self._is_eligible(replica_id, partition.followers[replica_id].broker_epoch):
            return
        self._take_in(partition, [replica_id])
        self._kick()

    def check(self, now_ms: int) -> None:
        """Look for replicas that have been behind for too long, and ask for their removal.

        And for those that have caught up when they could not be asked for: a follower of an idle partition says where it is only once.
        """
        behind: dict[str, list[Partition]] = {}
        for partition in list(self._suspects):
            if self._is_complete(partition):
                del self._suspects[partition]
                continue
            if partition in self._proposals or self._is_held(partition, now_ms):
                continue
            joining = [
                replica_id
                for replica_id in partition.may_join_isr()
                if self._is_eligible(replica_id, partition.followers[replica_id].broker_epoch)
            ]
            if joining:
                self._take_in(partition, joining)
                continue
            late = self._late(partition, now_ms)
            if late:
                behind.setdefault(", ".join(map(str, late)), []).append(partition)
                self._propose(partition, tuple(node for node in partition.isr if node not in late))
        for brokers, partitions in behind.items():
            log.warning("broker %s is behind and shall leave the replicas in sync of %s", brokers, _named(partitions))
        if self._proposals:
            self._kick()

    def _take_in(self, partition: Partition, joining: list[int]) -> None:
        log.debug("%s: %s caught up and shall join the replicas in sync", partition.topic_partition, joining)
        self._propose(partition, (*partition.isr, *joining))

    def _late(self, partition: Partition, now_ms: int) -> list[int]:
        late = partition.out_of_sync(now_ms, self.lag_ms_max)
        if self.lag_messages_max >= 0:
            end = partition.log.log_end_offset
            late += [
                node
                for node in partition.isr
                if node not in late
                and (progress := partition.followers.get(node)) is not None
                and progress.end_offset >= 0
                and end - progress.end_offset > self.lag_messages_max
            ]
        return late

    def _is_complete(self, partition: Partition) -> bool:
        """Whether every replica is in sync and at the end, so that time alone changes nothing."""
        if not partition.is_leader:
            return True
        end = partition.log.log_end_offset
        return len(partition.isr) == len(partition.replicas) and all(
            progress.end_offset == end for progress in partition.followers.values()
        )

    def _is_held(self, partition: Partition, now_ms: int) -> bool:
        held = self._held_until.get(partition)
        if held is None:
            return False
        if held[0] == partition.partition_epoch and now_ms < held[1]:
            return True
        del self._held_until[partition]
        return False

    def _propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        # An earlier proposal may have been accepted by an answer that is lost: until the metadata tells, all that were asked for count.
        partition.proposed_isr = tuple({*partition.proposed_isr, *isr})
        epochs = tuple(self._broker_epoch_of(partition, node) for node in isr)
        self._proposals[partition] = Proposal(isr, epochs, partition.leader_epoch, partition.partition_epoch)

    # Asking the controller.

    def next_request(self, now_ms: int, broker_epoch: int) -> AlterPartitionRequest | None:
        """What to send now, if anything; `answered` comes before the next."""
        if self._sent or not self._proposals or now_ms < self._retry_at_ms:
            return None
        request = AlterPartitionRequest(broker_id=self.node_id, broker_epoch=broker_epoch)
        topics: dict[bytes, RequestTopic] = {}
        for partition, proposal in list(self._proposals.items()):
            if not self._is_current(partition, proposal):
                del self._proposals[partition]
                continue
            if len(self._sent) == PARTITIONS_PER_REQUEST_MAX:
                break
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = RequestTopic(topic_id=partition.topic_id)
            index = partition.topic_partition.partition
            states = [
                BrokerState(broker_id=node, broker_epoch=broker_epoch if node == self.node_id else epoch)
                for node, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
            ]
            topic.partitions.append(
                RequestPartition(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=states,
                    partition_epoch=proposal.partition_epoch,
                )
            )
            self._sent[partition.topic_id, index] = (partition, proposal)
        request.topics = list(topics.values())
        return request if self._sent else None

    def retry_at_ms(self) -> int | None:
        """When to ask `next_request` again if nothing happens; None: not before something does."""
        return self._retry_at_ms if self._proposals and not self._sent else None

    @property
    def has_refusals(self) -> bool:
        """Whether something was refused lately: it may be asked for again after REFUSED_MS, and nothing else may happen till then."""
        return bool(self._held_until)

    def _is_current(self, partition: Partition, proposal: Proposal) -> bool:
        """Whether what the proposal was based on is still so."""
        return (
            partition.is_leader
            and partition.leader_epoch == proposal.leader_epoch
            and partition.partition_epoch == proposal.partition_epoch
        )

    def _broker_epoch_of(self, partition: Partition, node: int) -> int:
        progress = partition.followers.get(node)
        return progress.broker_epoch if progress is not None else -1

    def answered(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        """Take the answer; None: none came."""
        sent, self._sent = self._sent, {}
        if response is None or response.error_code:
            if response is not None:
                log.info("the controller could not change replicas in sync: %s", ErrorCode(response.error_code).name)
            self._retry_at_ms = now_ms + self._retry_ms
            self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
            return
        self._retry_ms = RETRY_MS_MIN
        self._retry_at_ms = 0
        changed: dict[str, list[Partition]] = {}
        for topic in response.topics:
            for answer in topic.partitions:
                asked = sent.pop((topic.topic_id, answer.partition_index), None)
                if asked is not None and self._take(*asked, answer, now_ms):
                    changed.setdefault(", ".join(map(str, sorted(answer.isr))), []).append(asked[0])
        for brokers, partitions in changed.items():
            log.info("in sync are now the brokers %s in %s", brokers, _named(partitions))
        if sent:  # A controller that leaves out what it was asked is asked again.
            self._retry_at_ms = now_ms + RETRY_MS_MAX

    def _take(self, partition: Partition, proposal: Proposal, answer: ResponsePartition, now_ms: int) -> bool:
        """One partition's answer; whether its replicas in sync are others now."""
        if self._proposals.get(partition) is not proposal:
            return False
        del self._proposals[partition]
        code = answer.error_code
        if not partition.is_leader or partition.leader_epoch != proposal.leader_epoch:
            return False
        if code:
            log.info("%s: the controller refused %s: %s", partition.topic_partition, proposal.isr, ErrorCode(code).name)
            self._suspects[partition] = None
            self._held_until[partition] = (proposal.partition_epoch, now_ms + REFUSED_MS)
            if code not in _WAIT_FOR_METADATA and partition.partition_epoch == proposal.partition_epoch:
                partition.proposed_isr = ()
                partition.raise_high_watermark()
            return False
        if answer.leader_epoch != partition.leader_epoch:
            return False
        self._suspects[partition] = None
        partition.change_isr(answer.isr, answer.partition_epoch)
        return True


def _named(partitions: list[Partition]) -> str:
    """The partitions for a line of the log: a few by name, more by their number."""
    names = ", ".join(str(partition.topic_partition) for partition in partitions[:NAMED_IN_LOG_MAX])
    more = len(partitions) - NAMED_IN_LOG_MAX
    return f"{names} and {more} partitions more" if more > 0 else names
