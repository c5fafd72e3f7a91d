"""The state machine: what each event means in each state."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.transactions.states import STATE_BY_LABEL, TABLE, Event, TransactionState, step

# States across, events down. A state's initials: it leads there. A number: that error. "-": it has happened before.
EXPECTED = """
                E    O    PC   PA   CC   CA   D    PEF
    INIT        E    PEF  51   51   E    E    49   51
    ADD         O    O    51   51   O    O    49   51
    COMMIT_V1   48   PC   51   51   -    48   49   51
    ABORT_V1    48   PA   51   51   48   -    49   51
    COMMIT      48   PC   51   51   48   48   49   51
    ABORT       PA   PA   51   51   PA   PA   49   51
    COMMIT_AGAIN 90  90   51   51   -    90   49   51
    ABORT_AGAIN 90   90   51   51   48   -    49   51
    TIME_OUT    48   PEF  51   51   48   48   49   51
    FENCE       48   48   48   48   48   48   49   PA
    MARKED      48   48   CC   CA   48   48   49   51
    EXPIRE      D    51   51   51   D    D    49   51
"""

INITIALS = {"".join(word[0] for word in state.name.split("_")): state for state in TransactionState}


def _pairs() -> list[tuple[str, str, str]]:
    states, *rows = (line.split() for line in EXPECTED.strip().splitlines())
    return [(state, event, meaning) for event, *row in rows for state, meaning in zip(states, row, strict=True)]


@pytest.mark.parametrize(("state", "event", "meaning"), _pairs(), ids="-".join)
def test_what_an_event_means_in_a_state(state: str, event: str, meaning: str) -> None:
    """Every pair of the table above."""
    start = INITIALS[state]
    if meaning.isdigit():
        with pytest.raises(KafkaError) as refused:
            step(start, Event[event])
        assert refused.value.code == int(meaning)
    else:
        assert step(start, Event[event]) is INITIALS.get(meaning)


def test_the_table_is_complete() -> None:
    """Every state says something about every event, and the table above covers them all."""
    assert all(set(row) == set(Event) for row in TABLE.values())
    assert len(_pairs()) == len(TransactionState) * len(Event)
    assert set(TABLE) == set(TransactionState)


def test_states_have_the_names_that_kafka_reports() -> None:
    """As in DescribeTransactions and in the filters of ListTransactions."""
    assert list(STATE_BY_LABEL) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert ErrorCode.NONE not in TABLE[TransactionState.ONGOING].values()
