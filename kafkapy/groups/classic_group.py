"""A classic group and its members: what the coordinator knows, without any decision about what comes next.

Members, protocols and assignments are opaque here but for one thing: which topics a consumer subscribes to, because
offsets of subscribed topics do not expire.
"""

from __future__ import annotations

import logging

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode, KafkaError, ProtocolError
from kafkapy.groups.states import GroupState
from kafkapy.wire.group_records import GroupMetadataValue, MemberMetadata
from kafkapy.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember
from kafkapy.wire.protocol_data import ConsumerProtocolSubscription

log = logging.getLogger("kafkapy.groups")

# The protocol type of consumers; Connect and schema registries have others.
CONSUMER_PROTOCOL_TYPE = "consumer"


def protocols_of(protocols: list[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Metadata by protocol name, in the member's order of preference."""
    return {protocol.name: bytes(protocol.metadata) for protocol in protocols}


class ClassicMember:
    """One member. `join_reply` and `sync_reply` are the requests that it is waiting on."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_reply",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # Has not had the answer to its first JoinGroup, so it does not know its id and cannot send heartbeats.
        self.is_new = False
        self.join_reply: Reply | None = None
        self.sync_reply: Reply | None = None

    def matches(self, protocols: dict[str, bytes]) -> bool:
        """Whether the member offers just these protocols, in this order, with this metadata."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)


class ClassicGroup:
    """One group. `members` keeps the order in which they joined: after the leader the next oldest leads."""

    __slots__ = (
        "awaiting_join",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "is_first_rebalance",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supported",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        # Since when the group is in its state; -1 in records of very old brokers.
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.pending_members: dict[str, None] = {}  # ids that were given out and not yet used
        self.pending_sync: dict[str, None] = {}  # members of this generation that did not send SyncGroup yet
        self.supported: dict[str, int] = {}  # protocol -> how many members offer it
        self.awaiting_join = 0
        # Topics of all members; None when it is not known (another protocol type, metadata that cannot be read).
        self.subscribed_topics: frozenset[str] | None = None
        # The first rebalance of an empty group waits for more members, and longer with each one that comes.
        self.is_first_rebalance = False
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Take the state that the table named."""
        if state is not self.state:
            self.state = state
            self.state_timestamp_ms = now_ms

    # Members.

    def add(self, member: ClassicMember, reply: Reply | None) -> None:
        """Make somebody a member, waiting with this JoinGroup."""
        if not self.members:
            self.leader_id = None
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(member, 1)
        self.pending_members.pop(member.member_id, None)
        self.await_join(member, reply)

    def remove(self, member_id: str) -> None:
        """Drop a member or a pending member; the oldest of the others takes over as leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.join_reply is not None:
                self.awaiting_join -= 1
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def update(
        self, member: ClassicMember, protocols: dict[str, bytes], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Take what a member's new JoinGroup says."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename(self, old: ClassicMember, new_member_id: str) -> ClassicMember:
        """Give a static member, who came back without remembering its id, a new one; it keeps all else."""
        new = ClassicMember(
            new_member_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        # The same place in the order of members.
        renamed = [(new_member_id, new) if member is old else (id_, member) for id_, member in self.members.items()]
        self.members.clear()
        self.members.update(renamed)
        if self.leader_id == old.member_id:
            self.leader_id = new_member_id
        if old.instance_id is not None:
            self.static_members[old.instance_id] = new_member_id
        if old.member_id in self.pending_sync:
            del self.pending_sync[old.member_id]
            self.pending_sync[new_member_id] = None
        return new

    def await_join(self, member: ClassicMember, reply: Reply | None) -> None:
        """Note which JoinGroup the member waits on, if any."""
        self.awaiting_join += (reply is not None) - (member.join_reply is not None)
        member.join_reply = reply

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that says it has this id; a static one is fenced once its instance id belongs to another."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing from the join phase."""
        return self.awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that the slowest member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one who joined; False if nobody did."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_reply is not None:
            return True
        for member in self.members.values():
            if member.join_reply is not None:
                self.leader_id = member.member_id
                return True
        return False

    # Protocols.

    def supports(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Whether somebody with these protocols has one in common with all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        size = len(self.members)
        return any(self.supported.get(name, 0) == size for name in protocols)

    def select_protocol(self) -> str:
        """The protocol with the most votes: each member votes for its favourite among those that all have."""
        size = len(self.members)
        candidates = {name for name, count in self.supported.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name in member.protocols:
                if name in candidates:
                    votes[name] = votes.get(name, 0) + 1
                    break
        assert votes, "members without a common protocol were let in"
        return max(votes, key=votes.__getitem__)

    def choose_protocol(self) -> None:
        """Settle the protocol of the generation that begins, and learn the topics from it."""
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._find_subscribed_topics()

    @property
    def is_consumer_type(self) -> bool:
        """Whether the members are consumers, so that the broker can read their subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; a group of consumers with unknown topics is taken to read all."""
        if self.subscribed_topics is None:
            return self.is_consumer_type
        return topic in self.subscribed_topics

    def _find_subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_consumer_type:
            return None
        topics: set[str] = set()
        # Every version of the subscription begins with version 0, so that is all that is read.
        decode = ConsumerProtocolSubscription.decoder(0)
        try:
            for member in self.members.values():
                metadata = member.protocols.get(self.protocol_name or "", b"")
                if len(metadata) < 2:
                    raise ProtocolError("a subscription begins with its version")
                topics.update(decode(metadata, 2, len(metadata))[0].topics)
        except ProtocolError as error:
            log.warning("Group %s: the topics of its members are not known: %s", self.group_id, error)
            return None
        return frozenset(topics)

    def _count(self, member: ClassicMember, by: int) -> None:
        supported = self.supported
        for name in member.protocols:
            count = supported.get(name, 0) + by
            if count:
                supported[name] = count
            else:
                supported.pop(name, None)

    # Forms for others.

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """All members with their metadata, as only the leader gets them."""
        name = self.protocol_name or ""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols.get(name, b""),
            )
            for member in self.members.values()
        ]

    def as_value(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The group as the log keeps it, with these assignments by member id."""
        name = self.protocol_name or ""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.protocols.get(name, b""),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    @classmethod
    def from_value(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group as the log has it: empty, or stable with the members of its last generation."""
        group = cls(group_id, value.current_state_timestamp)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        for stored in value.members:
            rebalance_timeout_ms = stored.rebalance_timeout
            member = ClassicMember(
                stored.member_id,
                stored.group_instance_id,
                stored.client_id,
                stored.client_host,
                stored.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
                stored.session_timeout,
                {value.protocol or "": bytes(stored.subscription)},
                bytes(stored.assignment),
            )
            group.add(member, None)
        group.leader_id = value.leader
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.subscribed_topics = group._find_subscribed_topics()
        return group
