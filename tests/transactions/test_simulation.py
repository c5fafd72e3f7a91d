"""Many seeded runs of the simulation, and the proof that it would notice a mistake."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.transactions import requests
from kafkapy.transactions.markers import Markers
from kafkapy.transactions.shard import Shard
from kafkapy.transactions.states import Event, TransactionState, step
from tests.transactions.simulation import Simulation

SEEDS = 5_000  # and as many in the other simulation
SEEDS_PER_TEST = 250


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("kafkapy.transactions").setLevel(logging.ERROR)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
@pytest.mark.slow
def test_transactions_keep_their_promises(first: int) -> None:
    """All or nothing everywhere, no acknowledged commit lost, nothing written by the replaced, nothing left open."""
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            Simulation(seed).run()
        except AssertionError as error:
            raise AssertionError(f"python -m tests.transactions.simulation --seed {seed}") from error


def test_a_seed_can_be_repeated() -> None:
    """The same seed tells the same story, word for word."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        Simulation(11, say=story.append).run()
    assert stories[0] == stories[1]
    assert len(stories[0]) > 30


def settled_at_once(self: Shard, entry: Any, now_ms: int, done: Any) -> None:
    """An answer that does not wait for the followers."""
    done(ErrorCode.NONE, now_ms)


def blind_step(state: TransactionState, event: Event) -> TransactionState | None:
    """A table that lets the next transaction begin while the last one is being marked."""
    if event is Event.ADD:
        return TransactionState.ONGOING
    return step(state, event)


PLANTED = [
    (Shard, "settled", settled_at_once),
    (Markers, "resend_all", lambda self, now_ms: None),
    (requests, "check_producer", lambda transaction, producer_id, epoch: None),
    (requests, "_check_expected", lambda before, last_epoch, expected: None),
    (requests, "step", blind_step),
    (requests.Requests, "time_out", lambda self, now_ms: None),
]


@pytest.mark.parametrize(("owner", "name", "wrong"), PLANTED, ids=[name for _, name, _ in PLANTED])
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: object) -> None:
    """Within a few hundred seeds."""
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, KafkaError)):
        for seed in range(300):
            Simulation(seed).run()
