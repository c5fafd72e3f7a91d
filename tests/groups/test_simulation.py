"""Thousands of seeded runs of the simulation, and the proof that it would notice a mistake."""

from __future__ import annotations

import logging

import pytest

from kafkapy.groups.classic_group import ClassicGroup
from kafkapy.groups.rebalance import Rebalancer
from kafkapy.groups.shard import Shard
from tests.groups.simulation import Simulation

SEEDS = 2_000
SEEDS_PER_TEST = 100


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("kafkapy.groups").setLevel(logging.ERROR)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
@pytest.mark.slow
def test_classic_groups_keep_their_promises(first: int) -> None:
    """No partition has two owners, no offset is lost, everybody is answered, the log alone gives the same state."""
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            Simulation(seed).run()
        except AssertionError as error:
            raise AssertionError(f"python -m tests.groups.simulation --seed {seed}") from error


def test_a_seed_can_be_repeated() -> None:
    """The same seed tells the same story, word for word."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        Simulation(11, say=story.append).run()
    assert stories[0] == stories[1]
    assert len(stories[0]) > 30


def forget_static_members(group: ClassicGroup, member_id: str) -> None:
    """A remove that leaves the instance behind."""
    group.members.pop(member_id, None)
    group.pending_members.pop(member_id, None)


PLANTED = [
    (ClassicGroup, "remove", forget_static_members),
    (Rebalancer, "extend_session", lambda self, group, member, now_ms: None),
    (Shard, "end_transaction", lambda self, producer_id, *, commit: None),
]


@pytest.mark.parametrize(("owner", "name", "wrong"), PLANTED, ids=[name for _, name, _ in PLANTED])
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, wrong: object) -> None:
    """Within a few dozen seeds."""
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(AssertionError):
        for seed in range(60):
            Simulation(seed).run()
