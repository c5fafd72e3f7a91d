"""The table of the classic group's states: complete, and what it says holds in a running coordinator."""

from __future__ import annotations

import pytest

from kafkapy.groups.states import TABLE, Action, Event, GroupState, step

# Events that cannot happen: who left, came back or went through the join phase was a member, and who can be a member of an empty group?
IMPOSSIBLE = {
    (GroupState.EMPTY, Event.STATIC_REPLACED),
    (GroupState.EMPTY, Event.STATIC_CHANGED),
    (GroupState.EMPTY, Event.MEMBER_GONE),
    *((state, Event.JOINED) for state in GroupState if state is not GroupState.PREPARING_REBALANCE),
    *((state, Event.NOBODY_JOINED) for state in GroupState if state is not GroupState.PREPARING_REBALANCE),
}

# From where to where a group may go; it may always stay.
ROADS = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.PREPARING_REBALANCE: {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.STABLE, GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.PREPARING_REBALANCE},
    GroupState.DEAD: set(),
}

REFUSALS = {
    Action.REFUSE_DEAD,
    Action.REFUSE_UNKNOWN_MEMBER,
    Action.REFUSE_REBALANCING,
    Action.REFUSE_NOT_EMPTY,
    Action.REFUSE_NOT_FOUND,
}
REBALANCES = {Action.START_FIRST_REBALANCE, Action.START_REBALANCE, Action.RESTART_REBALANCE}
REBALANCES |= {Action.FAIL_ASSIGNMENT, Action.EVICT_UNSYNCED}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", GroupState)
def test_every_pair_is_settled(state: GroupState, event: Event) -> None:
    """Each event in each state has a step along an allowed road, or is known to be impossible."""
    if (state, event) in IMPOSSIBLE:
        with pytest.raises(AssertionError):
            step(state, event)
        return
    action, next_state = step(state, event)
    assert next_state is state or next_state in ROADS[state]
    if action in REFUSALS or action is Action.NOTHING:
        assert next_state is state, "a refusal changes nothing"
    assert (action in REBALANCES) == (
        next_state is GroupState.PREPARING_REBALANCE and state is not GroupState.PREPARING_REBALANCE
    )
    assert (state is GroupState.DEAD) <= (action in REFUSALS or action is Action.NOTHING)


def test_every_action_is_used() -> None:
    """Nothing in the list of actions is left over."""
    used = {one.action for row in TABLE.values() for one in row.values()}
    assert used == set(Action)


def test_states_have_the_names_that_tools_show() -> None:
    """DescribeGroups and ListGroups send these strings."""
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [state.value for state in GroupState] == names
