"""When a voter among several stands for election. The core knows timeouts only; here it is asked, and told.

Before a voter stands it asks the others whether they would vote for it (the pre-vote of raft's author). Nobody's term changes by that, so a voter
that was cut off, or hears nothing, or is started anew cannot throw over a leader who serves everyone else. A voter says yes if it has no live leader,
the term would be new to it, and the other's log is not behind its own. So it costs nothing to ask early:

    the leader's connection broke, or its host says that nobody listens there      ask within LEADER_LOST_S
    nothing was heard from the leader, though the connection stands                after LEADER_SILENT_S, and a look at what has come
    there is no leader, or the others did not want this one                        again after RETRY_S

A voter that is no member yet (voter_identity.py) neither asks nor answers nor votes, and its word does not count with others; one that is joining
does not ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkapy.raft.syncobj_seams import CANDIDATE, LEADER, Dice
from kafkapy.raft.voter_session import Standing

LEADER_LOST_S = (0.02, 0.1)
LEADER_SILENT_S = (1.0, 1.4)
RETRY_S = (0.05, 0.15)
VOTES_DUE_S = (0.2, 0.5)


class Elections:
    """Asks, answers, and lets the core stand. Of the quorum's thread alone."""

    def __init__(
        self,
        core_voter: Any,
        deliver: Callable[[int, dict[str, Any]], None],
        others: tuple[int, ...],
        clock: Callable[[], float],
        dice: Dice,
        look: Callable[[], None],
    ) -> None:
        """`look` has the loop read what has come and then calls `looked`: a loop that was busy is no sign of a leader that is silent."""
        self.standing = Standing.MEMBER
        self.links: set[int] = set()
        self.learners: set[int] = set()
        self._voter = core_voter
        self._deliver = deliver
        self._others = others
        self._clock = clock
        self._dice = dice
        self._look = look
        self._has_looked = False
        self._heard_at = float("-inf")
        self._asked_term = 0
        self._yes: set[int] = set()
        self.deadline = clock() + self._between(RETRY_S)

    # What happens.

    def link_up(self, node_id: int, is_member: bool) -> None:
        """A voter can be reached."""
        self.links.add(node_id)
        if is_member:
            self.learners.discard(node_id)
            return
        self.learners.add(node_id)
        if self._voter.state == CANDIDATE:
            # It may be one that has lost its disk, and with it the vote that it gave us: that one must not count any more.
            self._voter.step_back()

    def become(self, standing: Standing) -> None:
        """What this voter's own word counts from now on."""
        self.standing = standing
        self.deadline = self._clock() + self._between(RETRY_S)

    @property
    def is_member(self) -> bool:
        """Whether this voter votes and counts."""
        return self.standing.counts

    def link_down(self, node_id: int) -> None:
        """Its link broke, most likely because its process has ended."""
        self.links.discard(node_id)
        self.refused(node_id)

    def refused(self, node_id: int) -> None:
        """Its host says that nobody listens there: the process has ended."""
        if self._leader_id == node_id and node_id not in self.links:
            self.deadline = min(self.deadline, self._clock() + self._between(LEADER_LOST_S))

    def heard_leader(self) -> None:
        """The leader of this term has sent something."""
        self._has_looked = False
        self._heard_at = self._clock()
        self.deadline = self._heard_at + self._between(LEADER_SILENT_S)

    def looked(self) -> None:
        """Everything that had come has been read."""
        if self._clock() - self._heard_at >= LEADER_SILENT_S[0]:
            self._has_looked = True
            self.deadline = self._clock()

    def voted(self) -> None:
        """Our vote is on its way to a candidate, who gets time to win."""
        self.deadline = self._clock() + self._between(VOTES_DUE_S)

    def receive(self, node_id: int, message: dict[str, Any]) -> None:
        """A pre-vote or an answer to one. Any answer of a later term tells that this voter's own is over."""
        voter = self._voter
        if message["type"] == "pre_vote_answer":
            if not message["granted"]:
                if message["term"] > voter.raftCurrentTerm:
                    voter.adopt_term(message["term"])
            elif message["term"] == self._asked_term == voter.raftCurrentTerm + 1 and node_id not in self.learners:
                self._yes.add(node_id)
                if len(self._yes) + 1 > (len(self._others) + 1) / 2:
                    self._stand()
        elif self.is_member and node_id not in self.learners:
            granted = self._would_vote(node_id, message) and not self._goes_first(node_id, message)
            if granted:
                self._asked_term = 0  # One of us is enough.
                self.deadline = max(self.deadline, self._clock() + self._between(RETRY_S))
            term = message["term"] if granted else voter.raftCurrentTerm
            self._deliver(node_id, {"type": "pre_vote_answer", "term": term, "granted": granted})

    def tick(self) -> None:
        """Ask, if it is time."""
        if self._clock() < self.deadline:
            return
        if self._voter.state == LEADER or self.standing is not Standing.MEMBER:
            self.deadline = self._clock() + self._between(LEADER_SILENT_S)
            return
        if self.leader_id >= 0 and not self._has_looked:
            self.deadline = self._clock() + self._between(LEADER_SILENT_S)
            self._look()
            return
        self.deadline = self._clock() + self._between(RETRY_S)
        self._yes.clear()
        self._asked_term = self._voter.raftCurrentTerm + 1
        last = self._voter.last_entry
        for node_id in self._others:
            if node_id in self.links:
                question = {"type": "pre_vote", "last_log_index": last.log_index, "last_log_term": last.term}
                self._deliver(node_id, {**question, "term": self._asked_term})

    # What is known.

    @property
    def leader_id(self) -> int:
        """Who leads, as far as can be seen: not one whose connection is broken. -1: nobody."""
        leader = self._leader_id
        return leader if self._voter.state == LEADER or leader in self.links else -1

    @property
    def _leader_id(self) -> int:
        leader = self._voter.leader
        return -1 if leader is None else int(leader.id)

    def _would_vote(self, node_id: int, message: dict[str, Any]) -> bool:
        voter, last = self._voter, self._voter.last_entry
        if message["term"] <= voter.raftCurrentTerm or voter.state == LEADER:
            return False
        has_live_leader = self._clock() - self._heard_at < LEADER_SILENT_S[0] and self.leader_id not in (-1, node_id)
        if has_live_leader:
            return False
        return (message["last_log_term"], message["last_log_index"]) >= (last.term, last.log_index)

    def _goes_first(self, node_id: int, message: dict[str, Any]) -> bool:
        """Two that ask at the same time and have the same log would split the votes: the one with the higher id is let through."""
        last = self._voter.last_entry
        same_log = (message["last_log_term"], message["last_log_index"]) == (last.term, last.log_index)
        return same_log and self._asked_term == message["term"] and node_id < int(self._voter.selfNode.id)

    def _stand(self) -> None:
        self._asked_term = 0
        self.deadline = self._clock() + self._between(VOTES_DUE_S)
        self._voter.election_deadline = float("-inf")

    def _between(self, limits: tuple[float, float]) -> float:
        low, high = limits
        return low + (high - low) * self._dice.random()
