"""When a voter stands: as soon as the leader is gone, and never against one who serves the others."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.raft.journal import Entry
from kafkapy.raft.syncobj_seams import CANDIDATE, FOLLOWER, LEADER
from kafkapy.raft.voter_elections import LEADER_LOST_S, LEADER_SILENT_S, RETRY_S, Elections
from kafkapy.raft.voter_session import Standing


class Node:
    """A voter, as the core names it."""

    def __init__(self, node_id: int) -> None:
        self.id = str(node_id)


class Core:
    """What elections see of the core."""

    def __init__(self) -> None:
        self.selfNode = Node(1)
        self.state = FOLLOWER
        self.leader: Any = None
        self.raftCurrentTerm = 4
        self.last_entry = Entry(b"x", 10, 4)
        self.election_deadline = 1e9
        self.adopted: list[int] = []

    def adopt_term(self, term: int) -> None:
        self.raftCurrentTerm = term
        self.adopted.append(term)

    def step_back(self) -> None:
        self.state = FOLLOWER


class Middle:
    """Dice that always show a half."""

    def random(self) -> float:
        return 0.5


class World:
    """Voter 1 of three or five, a clock, and what it has said."""

    def __init__(self, others: tuple[int, ...] = (2, 3)) -> None:
        self.now_s = 100.0
        self.said: list[tuple[int, dict[str, Any]]] = []
        self.core = Core()
        self.looks = 0

        def say(to: int, what: dict[str, Any]) -> None:
            self.said.append((to, what))

        def look() -> None:
            self.looks += 1

        self.elections = Elections(self.core, say, others, lambda: self.now_s, Middle(), look)
        for other in others:
            self.elections.link_up(other, is_member=True)

    def after(self, limits: tuple[float, float]) -> None:
        """Time passes, just beyond the middle of what is between the limits."""
        self.now_s += sum(limits) / 2 + 1e-6
        self.elections.tick()

    def follow(self, leader: int) -> None:
        """A leader has been heard."""
        self.core.leader = Node(leader)
        self.elections.heard_leader()
        self.said.clear()

    def answer(self, sender: int, granted: bool = True, term: int = 5) -> None:
        self.elections.receive(sender, {"type": "pre_vote_answer", "term": term, "granted": granted})

    def ask(self, sender: int, term: int = 5, index: int = 10, last_term: int = 4) -> bool:
        """Would it vote?"""
        self.said.clear()
        question = {"type": "pre_vote", "term": term, "last_log_index": index, "last_log_term": last_term}
        self.elections.receive(sender, question)
        ((to, answer),) = self.said
        assert to == sender and answer["term"] == (term if answer["granted"] else self.core.raftCurrentTerm)
        return bool(answer["granted"])

    @property
    def stands(self) -> bool:
        return self.core.election_deadline < 0


def test_it_asks_before_it_stands() -> None:
    """With a majority's consent it stands; its term is the core's to change."""
    world = World()
    world.after(RETRY_S)
    assert [(to, what["type"], what["term"]) for to, what in world.said] == [(2, "pre_vote", 5), (3, "pre_vote", 5)]
    assert not world.stands
    world.answer(3)
    assert world.stands and world.core.raftCurrentTerm == 4


def test_five_voters_need_two_others() -> None:
    """The same voice does not count twice."""
    world = World((2, 3, 4, 5))
    world.after(RETRY_S)
    world.answer(2)
    world.answer(2)
    assert not world.stands
    world.answer(5)
    assert world.stands


def test_an_answer_to_an_older_question_does_not_count() -> None:
    """The term has moved on meanwhile."""
    world = World()
    world.after(RETRY_S)
    world.core.raftCurrentTerm = 5
    world.answer(2)
    assert not world.stands


def test_a_later_term_is_adopted() -> None:
    """Who is behind learns it from the answer."""
    world = World()
    world.after(RETRY_S)
    world.answer(2, granted=False, term=9)
    assert world.core.adopted == [9]
    world.answer(2, granted=False, term=9)
    assert world.core.adopted == [9]


def test_a_broken_link_to_the_leader_is_asked_about_at_once() -> None:
    """While the leader is only silent it gets its time."""
    world = World()
    world.follow(2)
    world.after(LEADER_LOST_S)
    assert not world.said and world.elections.leader_id == 2
    world.elections.link_down(3)
    world.after(LEADER_LOST_S)
    assert not world.said
    world.elections.link_up(3, is_member=True)
    world.elections.link_down(2)
    assert world.elections.leader_id == -1
    world.after(LEADER_LOST_S)
    assert [to for to, _ in world.said] == [3]


def test_a_silent_leader_is_asked_about_in_the_end() -> None:
    """It hangs, though its connection stands."""
    world = World()
    world.follow(2)
    world.after(LEADER_SILENT_S)
    assert world.looks == 1 and not world.said
    world.elections.looked()
    world.elections.tick()
    assert len(world.said) == 2


def test_a_leader_who_was_not_listened_to_is_not_silent() -> None:
    """The loop was busy; what it reads then has come from the leader in time."""
    world = World()
    world.follow(2)
    world.after(LEADER_SILENT_S)
    world.elections.heard_leader()
    world.elections.looked()
    world.elections.tick()
    assert world.looks == 1 and not world.said


@pytest.mark.parametrize(
    ("term", "index", "last_term", "would"),
    [(5, 10, 4, True), (5, 9, 4, False), (5, 50, 3, False), (5, 1, 5, True), (4, 10, 4, False)],
)
def test_it_would_vote_for_a_log_not_behind_its_own_in_a_new_term(
    term: int, index: int, last_term: int, would: bool
) -> None:
    """As raft votes."""
    assert World().ask(2, term, index, last_term) is would


def test_it_would_not_vote_against_a_live_leader() -> None:
    """Neither as its follower, nor as the leader itself; but that leader may ask, and a silent one is not live."""
    world = World()
    world.follow(2)
    assert not world.ask(3)
    assert world.ask(2)
    world.now_s += LEADER_SILENT_S[0] + 0.01
    assert world.ask(3)
    world.core.state = LEADER
    assert not world.ask(3)


def test_of_two_that_ask_at_once_the_higher_one_stands() -> None:
    """Else each would vote for itself."""
    world = World()
    world.after(RETRY_S)
    assert world.ask(2)
    world.answer(3)
    assert not world.stands
    world = World()
    world.core.selfNode = Node(9)
    world.after(RETRY_S)
    assert not world.ask(2)
    assert world.ask(2, index=11)
    world.after(RETRY_S)
    world.answer(3)
    assert world.stands


def test_who_is_no_member_neither_asks_nor_answers() -> None:
    """Nor does its word count with others."""
    world = World()
    world.elections.standing = Standing.NEWCOMER
    world.after(RETRY_S)
    world.elections.receive(2, {"type": "pre_vote", "term": 9, "last_log_index": 99, "last_log_term": 9})
    assert world.said == []
    assert world.elections.deadline > world.now_s  # or the quorum's thread would not sleep
    world.elections.become(Standing.MEMBER)
    world.elections.link_up(2, is_member=False)
    world.after(RETRY_S)
    assert len(world.said) == 2
    world.answer(2)
    assert not world.stands
    world.said.clear()
    world.elections.receive(2, {"type": "pre_vote", "term": 9, "last_log_index": 99, "last_log_term": 9})
    assert world.said == []


def test_who_is_joining_votes_and_does_not_stand() -> None:
    """It has nothing yet that the others have."""
    world = World()
    world.elections.become(Standing.JOINING)
    world.after(RETRY_S)
    assert world.said == []
    assert world.ask(2)


def test_a_candidate_steps_back_when_a_voter_rejoins() -> None:
    """The lost disk may have held a vote for it."""
    world = World()
    world.core.state = CANDIDATE
    world.elections.link_up(3, is_member=False)
    assert world.core.state == FOLLOWER
