"""Many members of classic groups in one process: each with its own connection, all in one selector loop.

A member joins, synchronises, heartbeats, and joins again when a heartbeat tells it to, as a stock consumer does. It reads nothing.
"""

from __future__ import annotations

import heapq
import selectors
import struct
import time
from collections.abc import Callable
from typing import Any

from bench.peers import Peer
from bench.raw import BenchError, connect
from kafkapy.client.connection import Pending
from kafkapy.wire.messages.heartbeat import HeartbeatRequest
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

# Error codes that belong to the protocol's normal course.
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
_NOT_YET = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)

SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
PROTOCOL_TYPE = "consumer"
PROTOCOL = "bench"


def subscription(topic: str) -> bytes:
    """ConsumerProtocolSubscription version 0: int16 version, array of topics, nullable user data."""
    name = topic.encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">i", -1)


def assignment(topic: str, partitions: list[int]) -> bytes:
    """ConsumerProtocolAssignment version 0: int16 version, array of (topic, array of partitions), nullable user data."""
    name = topic.encode()
    head = struct.pack(">hih", 0, 1, len(name)) + name
    return head + struct.pack(f">i{len(partitions)}ii", len(partitions), *partitions, -1)


class Member:
    """One member and what it waits for."""

    __slots__ = ("assigned", "connection", "generation", "group", "id", "pending", "stable")

    def __init__(self, peer: Peer, group: str) -> None:
        self.group = group
        self.connection = connect(peer)
        self.id = ""
        self.generation = -1
        self.stable = False
        self.assigned = b""
        self.pending: tuple[Pending, Callable[[Member, Any], None]] | None = None


class Fleet:
    """All members of a benchmark."""

    def __init__(self, topic: str, partitions: int, heartbeat_interval_s: float) -> None:
        self.members: list[Member] = []
        self.errors = 0
        self.heartbeats = 0
        self._topic = topic
        self._partitions = partitions
        self._interval_s = heartbeat_interval_s
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int]] = []  # when which member does something, as a heap

    def add(self, peer: Peer, group: str) -> None:
        """A new member, connected, that has not joined yet."""
        member = Member(peer, group)
        self._selector.register(member.connection, selectors.EVENT_READ, len(self.members))
        self.members.append(member)

    def close(self) -> None:
        """Leave without a word."""
        self._selector.close()
        for member in self.members:
            member.connection.close()

    def join(self, member: Member) -> None:
        """Ask to be let in, or in again."""
        member.stable = False
        request = JoinGroupRequest(
            group_id=member.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=member.id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription(self._topic))],
        )
        member.pending = (member.connection.send(request), self._joined)

    def run(self, is_over: Callable[[], bool], timeout_s: float) -> None:
        """Do what the members have to do until it is over."""
        deadline = time.monotonic() + timeout_s
        while not is_over():
            now = time.monotonic()
            if now > deadline:
                stable = sum(member.stable for member in self.members)
                raise BenchError(f"{stable} of {len(self.members)} members are settled after {timeout_s:.0f} s")
            wait_s = min(0.05, self._due[0][0] - now) if self._due else 0.05
            for key, _ in self._selector.select(max(0.0, wait_s)):
                self._receive(self.members[key.data])
            self._do_what_is_due()

    def is_settled(self) -> bool:
        """Whether all have the same generation and their share of the partitions."""
        first = self.members[0].generation
        return all(member.stable and member.generation == first for member in self.members)

    def is_stable(self) -> bool:
        """Whether all have what they wait for."""
        return all(member.stable for member in self.members)

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, index = heapq.heappop(self._due)
            member = self.members[index]
            if member.pending is not None:
                continue
            if not member.stable:
                self.join(member)
                continue
            request = HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.id)
            member.pending = (member.connection.send(request), self._heartbeaten)

    def _receive(self, member: Member) -> None:
        assert member.pending is not None, "an answer without a question"
        pending, then = member.pending
        member.pending = None
        then(member, member.connection.receive(pending))

    def _later(self, member: Member, delay_s: float) -> None:
        # The selector knows the member's number already.
        index = self._selector.get_key(member.connection).data
        heapq.heappush(self._due, (time.monotonic() + delay_s, index))

    def _joined(self, member: Member, answer: JoinGroupResponse) -> None:
        if answer.error_code == MEMBER_ID_REQUIRED:
            member.id = answer.member_id
            self.join(member)
            return
        if answer.error_code in _NOT_YET:
            self._later(member, 0.1)
            return
        if answer.error_code:
            raise BenchError(f"JoinGroup answered {answer.error_code}")
        member.id = answer.member_id
        member.generation = answer.generation_id
        request = SyncGroupRequest(
            group_id=member.group,
            generation_id=member.generation,
            member_id=member.id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
        )
        ids = [other.member_id for other in answer.members]
        for index, member_id in enumerate(ids):
            share = list(range(index, self._partitions, len(ids)))
            request.assignments.append(
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment(self._topic, share))
            )
        member.pending = (member.connection.send(request), self._synchronised)

    def _synchronised(self, member: Member, answer: SyncGroupResponse) -> None:
        if answer.error_code == REBALANCE_IN_PROGRESS:
            self.join(member)
            return
        if answer.error_code:
            raise BenchError(f"SyncGroup answered {answer.error_code}")
        member.stable = True
        member.assigned = bytes(answer.assignment)
        self._later(member, self._interval_s)

    def _heartbeaten(self, member: Member, answer: Any) -> None:
        self.heartbeats += 1
        if answer.error_code == REBALANCE_IN_PROGRESS:
            self.join(member)
            return
        if answer.error_code:
            raise BenchError(f"Heartbeat answered {answer.error_code}")
        self._later(member, self._interval_s)
