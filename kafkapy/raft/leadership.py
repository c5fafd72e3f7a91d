"""Who leads a partition: the one place where leaders are chosen, and with them the ISR and the eligible leader replicas.

Everything that moves a leadership says what it wants of a partition (`Wanted`: another ISR, other replicas) and gets the record that
makes it so, or None where nothing changes. The leader stays if it can. Otherwise it is the first replica in order that is alive and

- in sync (in the ISR), or
- eligible (KIP-966: it left the ISR while that was smaller than min.insync.replicas, so it has all that was ever acknowledged), if nobody
  is in sync, or
- the last one that led, if nobody is eligible either: it comes back from a crash and may have lost its last records, or
- anyone, where unclean.leader.election.enable says so. That loses records, and `Leadership.notes` says it in words for the log.

If there is none of them the partition has no leader.

A change of the leader opens a leader epoch. So does a reassignment that removes a replica; a smaller ISR alone only did before
metadata.version 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import (
    BROKER,
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    TOPIC,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkapy.wire.metadata_records import NO_LEADER_CHANGE, PartitionChangeRecord
from kafkapy.wire.schema import Record

ELR_FEATURE = "eligible.leader.replicas.version"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

# What a partition's leader_recovery_state says: a leader that was elected without being in sync is recovering until it says otherwise.
RECOVERED, RECOVERING = 0, 1

# Up to this level of metadata.version a smaller ISR opened a leader epoch.
_EPOCH_ON_SHRINK_MAX = 11
# From this level on the log directories of replicas are written.
_DIRECTORIES_MIN = 17


# After a crash of the whole cluster there would be one for each partition.
NOTES_MAX = 20


class Election(IntEnum):
    """Whom to prefer: the first replica, the leader there is, or at need even one that is not in sync."""

    PREFERRED = 0
    ONLINE = 1
    UNCLEAN = 2


class Wanted(NamedTuple):
    """What shall become of a partition. None leaves that part as it is."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[int, bytes] | None = None  # of these replicas
    lost_records: Collection[int] = ()  # replicas that are back from a crash, and so not eligible any longer


class Conditions(NamedTuple):
    """Under which a partition is decided on."""

    may_lead: Callable[[int], bool]
    election: Election = Election.ONLINE
    min_insync_replicas: int = 1
    elr_enabled: bool = True
    epoch_on_shrink: bool = False
    default_directory: Callable[[int], bytes] | None = None  # None: directories are not written


NOTHING_WANTED = Wanted()


def change_partition(partition: PartitionImage, wanted: Wanted, conditions: Conditions) -> PartitionChangeRecord | None:
    """The record that makes of the partition what is wanted, with the leader that follows from it; its topic and number are to be filled in."""
    target = _Target(partition, wanted)
    target.complete_reassignment()
    if conditions.elr_enabled:
        target.populate_elr(conditions.min_insync_replicas, wanted.lost_records)
    record = PartitionChangeRecord()
    _elect(record, partition, target, conditions)
    if record.leader == NO_LEADER_CHANGE and not set(partition.replicas).issubset(target.replicas):
        # The removed replica must stop to count as one: the leader's next epoch tells it.
        record.leader = partition.leader
    if record.isr is not None or not conditions.elr_enabled:
        target.elr = ()
    if target.elr != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = list(target.elr)
    if record.isr is None and (target.isr or conditions.elr_enabled) and target.isr != partition.isr:
        record.isr = list(target.isr)
    shrinks = record.isr is not None and not set(partition.isr).issubset(record.isr)
    if conditions.epoch_on_shrink and shrinks and record.leader == NO_LEADER_CHANGE:
        record.leader = partition.leader
    if conditions.elr_enabled:
        if record.leader == NO_LEADER and not partition.last_known_elr:
            record.last_known_elr = [partition.leader]
        elif record.leader >= 0 and partition.last_known_elr:
            record.last_known_elr = []
    _assign(record, partition, target, wanted, conditions.default_directory)
    if wanted.leader_recovery_state not in (None, partition.leader_recovery_state):
        record.leader_recovery_state = wanted.leader_recovery_state
    return None if _is_empty(record) else record


class _Target:
    """The partition as it shall be, while it is being worked out."""

    __slots__ = ("adding", "elr", "isr", "partition", "removing", "replicas")

    def __init__(self, partition: PartitionImage, wanted: Wanted) -> None:
        self.partition = partition
        self.isr = partition.isr if wanted.isr is None else tuple(wanted.isr)
        self.replicas = partition.replicas if wanted.replicas is None else tuple(wanted.replicas)
        self.adding = partition.adding_replicas if wanted.adding is None else tuple(wanted.adding)
        self.removing = partition.removing_replicas if wanted.removing is None else tuple(wanted.removing)
        self.elr = partition.eligible_leader_replicas

    def complete_reassignment(self) -> None:
        """A move ends as soon as all that are added are in sync; one that only removes, when all that stay are."""
        if not self.adding and not self.removing:
            return
        isr = tuple(one for one in self.isr if one not in self.removing)
        replicas = tuple(one for one in self.replicas if one not in self.removing)
        if self.removing and not (isr and replicas):
            return
        if not set(self.adding).issubset(isr):
            return
        if len(self.adding) < len(self.removing) and not set(replicas).issubset(isr):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()

    def populate_elr(self, min_insync_replicas: int, lost_records: Collection[int]) -> None:
        """Who leaves an ISR that is too small for acks=all stays eligible: nothing is acknowledged that it hasn't got.

        A partition with fewer replicas than min.insync.replicas needs them all.
        """
        if len(self.isr) >= min(min_insync_replicas, len(self.replicas)):
            self.elr = ()
            return
        candidates = {*self.elr, *self.partition.isr}.difference(self.isr, lost_records).intersection(self.replicas)
        self.elr = tuple(sorted(candidates)) if candidates != set(self.elr) else self.elr


def _elect(record: PartitionChangeRecord, partition: PartitionImage, target: _Target, conditions: Conditions) -> None:
    """Name the leader, if it is another one than before."""
    leader, clean = _choose(partition, target, conditions)
    if leader == partition.leader:
        return
    record.leader = leader
    if leader in target.elr:
        target.isr = (leader,)
        # The leader alone may be enough for acks=all, because fewer are needed than when the others became eligible.
        enough = min(conditions.min_insync_replicas, len(target.replicas)) <= 1
        target.elr = () if enough else tuple(one for one in target.elr if one != leader)
    if not clean:
        record.isr = [leader]
        if partition.leader_recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING


def _choose(partition: PartitionImage, target: _Target, conditions: Conditions) -> tuple[int, bool]:
    """The leader, and whether it is known to have all records that were acknowledged."""
    may_lead = conditions.may_lead
    eligible = target.isr or target.elr
    leader = partition.leader
    if conditions.election is Election.PREFERRED:
        preferred = target.replicas[0]
        if preferred in eligible and may_lead(preferred):
            return preferred, True
    if leader in eligible and may_lead(leader):
        return leader, True
    for one in target.replicas:
        if one in eligible and may_lead(one):
            return one, True
    if conditions.elr_enabled and not eligible and len(partition.last_known_elr) == 1:
        last = partition.last_known_elr[0]
        if last in target.replicas and may_lead(last):
            return last, False
    if conditions.election is Election.UNCLEAN:
        for one in target.replicas:
            if may_lead(one):
                return one, False
    return NO_LEADER, True


def _assign(
    record: PartitionChangeRecord,
    partition: PartitionImage,
    target: _Target,
    wanted: Wanted,
    default_directory: Callable[[int], bytes] | None,
) -> None:
    """Replicas, those on the move, and the directories that they are in."""
    if target.replicas != partition.replicas:
        record.replicas = list(target.replicas)
    if target.removing != partition.removing_replicas:
        record.removing_replicas = list(target.removing)
    if target.adding != partition.adding_replicas:
        record.adding_replicas = list(target.adding)
    if default_directory is None or (record.replicas is None and wanted.directories is None):
        return
    known = {**dict(zip(partition.replicas, partition.directories, strict=False)), **(wanted.directories or {})}
    directories = [known[one] if one in known else default_directory(one) for one in target.replicas]
    if tuple(directories) != partition.directories:
        record.directories = directories


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.leader == NO_LEADER_CHANGE
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state < 0
        and record.directories is None
    )


def has_online_directory(broker: BrokerRegistration, directory: bytes) -> bool:
    """Whether a replica in this directory of the broker can be served, as far as one knows."""
    if directory == DIRECTORY_LOST:
        return False
    unknown = directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) or not broker.log_dirs
    return unknown or directory in broker.log_dirs


class Leadership:
    """The partitions of an image as one decision sees them: who is alive, and what the configuration says of each topic.

    `gone` are brokers that the decision takes out, `returning` those that it lets in, before the image tells so. `notes` collects what an
    operator must be told.
    """

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        *,
        gone: Collection[int] = (),
        returning: Collection[int] = (),
    ) -> None:
        self.image = image
        self.notes: list[str] = []
        self._config = config
        self._alive = {one.id for one in image.brokers.values() if one.is_active}.union(returning).difference(gone)
        self._elr_enabled = bool(image.features.get(ELR_FEATURE))
        # An image that tells no version is one of a test or of a cluster that is being born: the newest rules hold.
        version = image.metadata_version
        self._epoch_on_shrink = 0 < version <= _EPOCH_ON_SHRINK_MAX
        self._with_directories = not 0 < version < _DIRECTORIES_MIN

    def change(
        self, topic: TopicImage, number: int, wanted: Wanted = NOTHING_WANTED, election: Election | None = None
    ) -> PartitionChangeRecord | None:
        """The record that makes of a partition what is wanted. Without an election being asked for it is as the topic's configuration allows."""
        partition = topic.partitions[number]
        if election is None:
            election = Election.UNCLEAN if self.allows_unclean(topic.name) else Election.ONLINE
        conditions = Conditions(
            lambda broker_id: self.may_lead(partition, broker_id),
            election,
            self.min_insync_replicas(topic.name),
            self._elr_enabled,
            self._epoch_on_shrink,
            self._default_directory if self._with_directories else None,
        )
        record = change_partition(partition, wanted, conditions)
        if record is not None:
            record.topic_id, record.partition_id = topic.id, number
            self._note(topic, number, wanted, record)
        return record

    def reopen(self, topic: TopicImage, number: int) -> PartitionChangeRecord:
        """The leader leads on, in a new epoch."""
        leader = topic.partitions[number].leader
        return PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=leader)

    def leave_isrs(self, broker_id: int, lost_records: bool = False) -> list[Record]:
        """The broker, which must be gone, is in sync nowhere any more; if it has lost records it is not eligible either."""
        records: list[Record] = []
        lost = (broker_id,) if lost_records else ()
        for topic, number, partition in all_partitions(self.image):
            if broker_id in partition.isr or (lost_records and broker_id in partition.eligible_leader_replicas):
                isr = [one for one in partition.isr if one != broker_id]
                record = self.change(topic, number, Wanted(isr=isr, lost_records=lost))
                if record is not None:
                    records.append(record)
        return records

    def elect_leaderless(self) -> list[Record]:
        """Leaders for the partitions that have none and can have one."""
        records: list[Record] = []
        for topic, number, partition in all_partitions(self.image):
            if partition.leader == NO_LEADER:
                record = self.change(topic, number)
                if record is not None:
                    records.append(record)
        return records

    def may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        """Whether the broker is alive, and the directory of its replica too."""
        if broker_id not in self._alive:
            return False
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker_id not in partition.replicas:
            return broker is not None
        place = partition.replicas.index(broker_id)
        return place >= len(partition.directories) or has_online_directory(broker, partition.directories[place])

    def min_insync_replicas(self, name: str) -> int:
        """How many replicas of a topic's partition must be in sync for acks=all, if it has as many."""
        configured = self._setting(name, MIN_INSYNC_REPLICAS)
        return self._config.min_insync_replicas if configured is None else int(configured)

    def allows_unclean(self, name: str) -> bool:
        """Whether a topic would rather lose records than wait."""
        configured = self._setting(name, UNCLEAN_LEADER_ELECTION)
        return self._config.unclean_leader_election_enable if configured is None else configured.lower() == "true"

    def decisions(self, records: Sequence[Record], response: object = None) -> list[Decision]:
        """The records in as many decisions as they need; the response and the notes go with the last one."""
        return in_decisions(records, response, self.told())

    def told(self) -> tuple[str, ...]:
        """What goes to the log: a few of the notes, and how many there are besides."""
        rest = len(self.notes) - NOTES_MAX
        return (*self.notes[:NOTES_MAX], *([f"and the same for {rest} more partitions"] if rest > 0 else ()))

    def _setting(self, name: str, key: str) -> str | None:
        own = self.image.config(TOPIC, name).get(key)
        return own if own is not None else self.image.config(BROKER, "").get(key)

    def _default_directory(self, broker_id: int) -> bytes:
        broker = self.image.brokers.get(broker_id)
        return DIRECTORY_UNASSIGNED if broker is None else broker.default_directory

    def _note(self, topic: TopicImage, number: int, wanted: Wanted, record: PartitionChangeRecord) -> None:
        """An election that may lose records is never silent."""
        if record.leader_recovery_state != RECOVERING and not (record.leader >= 0 and record.isr == [record.leader]):
            return
        before = topic.partitions[number]
        if len(before.replicas) == 1:
            return  # Nobody else could have led, and its next epoch tells consumers.
        if record.leader in (*before.isr, *before.eligible_leader_replicas, *(wanted.isr or ())):
            return
        last = record.leader in before.last_known_elr
        who = "the last leader, back from a crash" if last else "a replica that is not in sync"
        self.notes.append(
            f"UNCLEAN LEADER ELECTION: broker {record.leader}, {who}, leads {topic.name}-{number} from epoch "
            f"{before.leader_epoch + 1} on: acknowledged records may be lost (in sync were {list(before.isr)}, "
            f"eligible {list(before.eligible_leader_replicas)})"
        )


def in_decisions(records: Sequence[Record], response: object = None, notes: Iterable[str] = ()) -> list[Decision]:
    """Records in decisions of bearable size. What is lost between two of them must be made good by whoever decides next."""
    chunks = [records[first : first + DECISION_RECORDS_MAX] for first in range(0, len(records), DECISION_RECORDS_MAX)]
    *first_chunks, last = chunks or [[]]
    return [*(Decision(list(chunk), None) for chunk in first_chunks), Decision(list(last), response, tuple(notes))]


def all_partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """Every partition, in an order that is the same everywhere."""
    for name in sorted(image.topics.by_name):
        topic = image.topics.by_name[name]
        for number, partition in enumerate(topic.partitions):
            yield topic, number, partition
