"""Thousands of seeded runs of the simulation, and the proof that it would notice a mistake."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkapy.groups import consumer_changes, reconciliation
from kafkapy.groups.classic_group import ClassicGroup
from kafkapy.groups.consumer_group import ConsumerGroup
from kafkapy.groups.rebalance import Rebalancer
from kafkapy.groups.shard import Shard
from tests.groups.simulation import Simulation

SEEDS = 5_000  # and as many in the other simulation
SEEDS_PER_TEST = 250


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("kafkapy.groups").setLevel(logging.ERROR)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
@pytest.mark.slow
def test_groups_keep_their_promises(first: int) -> None:
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
    (reconciliation, "_still_owns", lambda revoking, reported: False),
    (consumer_changes, "next_step", lambda member, *others: member),
    (ConsumerGroup, "remove", lambda self, member_id: self.members.pop(member_id, None)),
]


@pytest.mark.parametrize(("owner", "name", "wrong"), PLANTED)
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: object) -> None:
    """Within a few dozen seeds."""
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(AssertionError):
        for seed in range(60):
            Simulation(seed).run()
