"""The state machine of a classic consumer group, as a table.

Theory of operation. A classic group moves in a circle. Members who want to take part send JoinGroup and are kept
waiting until all of them are there (PREPARING_REBALANCE). Then a generation begins: everyone gets its number, one of
them, the leader, also gets the list of members, and the group waits for the leader's assignment
(COMPLETING_REBALANCE). The leader sends it with SyncGroup, it is written to the log, everybody's SyncGroup is answered
with its share (STABLE). Anything that changes the membership begins the circle anew. When nobody is left the group is
EMPTY: it still owns committed offsets. DEAD groups are gone from the coordinator.

    EMPTY ──a member joins──> PREPARING ──all joined, or time is up──> COMPLETING ──assignment stored──> STABLE
      ^                        |   ^                                      |                                |
      └──────nobody joined─────┘   └────────a member comes, goes or changes, or does not sync in time──────┘

Two rules:

1. Everything that decides on the state stands in TABLE. The coordinator asks `step(state, event)`, carries out the
   action and takes the next state; it never compares states to decide what happens.
2. Whether a request comes from a member at all (unknown id, fenced instance, wrong generation) is checked before an
   event is made of it. The table says what a *valid* request meets in each state.

Events that a state does not list cannot happen there: `step` fails, which is a mistake of ours.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class GroupState(Enum):
    """The states, with the names that DescribeGroups and ListGroups report."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """What can happen to a group."""

    MEMBER_ADDED = auto()  # JoinGroup of somebody who was no member so far
    MEMBER_CHANGED = auto()  # JoinGroup of a member with other protocols or metadata
    LEADER_REJOINED = auto()  # JoinGroup of the leader with nothing changed: it asks for a rebalance
    JOIN_REPEATED = auto()  # JoinGroup of a follower with nothing changed: it did not get the first answer
    STATIC_REPLACED = auto()  # a static member came back under a new member id, the chosen protocol stays
    STATIC_CHANGED = auto()  # the same, but the members would now choose another protocol
    LEADER_SYNCED = auto()  # SyncGroup with the assignment
    FOLLOWER_SYNCED = auto()  # SyncGroup of anybody else
    ASSIGNMENT_STORED = auto()  # the log has the assignment of this generation
    ASSIGNMENT_LOST = auto()  # the log did not take it
    HEARTBEAT = auto()
    COMMIT = auto()  # OffsetCommit of a member with the right generation
    MEMBER_GONE = auto()  # left, or its session ended
    PENDING_GONE = auto()  # somebody who was given a member id never came back with it
    JOINED = auto()  # the join phase is over and there are members
    NOBODY_JOINED = auto()  # the join phase is over and the group has no member
    SYNC_TIMEOUT = auto()  # members of this generation did not send SyncGroup in time
    DELETE = auto()  # DeleteGroups, or all offsets of an empty group expired


class Action(Enum):
    """What the coordinator does about it."""

    NOTHING = auto()
    REFUSE_DEAD = auto()  # COORDINATOR_NOT_AVAILABLE: find the coordinator again
    REFUSE_UNKNOWN_MEMBER = auto()  # UNKNOWN_MEMBER_ID: join anew
    REFUSE_REBALANCING = auto()  # REBALANCE_IN_PROGRESS: join again
    REFUSE_NOT_EMPTY = auto()  # NON_EMPTY_GROUP
    REFUSE_NOT_FOUND = auto()  # GROUP_ID_NOT_FOUND
    ACCEPT = auto()
    START_FIRST_REBALANCE = auto()  # wait group.initial.rebalance.delay.ms for more members
    START_REBALANCE = auto()  # wait for the members to join again
    RESTART_REBALANCE = auto()  # the same, after sending waiting SyncGroups away with REBALANCE_IN_PROGRESS
    FINISH_JOIN_IF_ALL_THERE = auto()
    ANSWER_GENERATION = auto()  # the same JoinGroup answer once more
    STORE_MEMBERS = auto()  # write the group with the new member id, then answer with the generation
    STORE_ASSIGNMENT = auto()  # write the group with the assignment
    WAIT_FOR_ASSIGNMENT = auto()
    ANSWER_ASSIGNMENT = auto()
    HAND_OUT_ASSIGNMENT = auto()  # answer all waiting SyncGroups
    FAIL_ASSIGNMENT = auto()  # answer all waiting SyncGroups with the error, then rebalance
    BEGIN_GENERATION = auto()  # answer all waiting JoinGroups
    STORE_EMPTY = auto()  # write the group without members
    EVICT_UNSYNCED = auto()  # drop who did not sync, then rebalance
    REMOVE = auto()


class Step(NamedTuple):
    """What to do, and the state afterwards."""

    action: Action
    next_state: GroupState


_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE
_DEAD = GroupState.DEAD

TABLE: dict[GroupState, dict[Event, Step]] = {
    # No member, perhaps committed offsets. Who claims to be a member is unknown.
    _EMPTY: {
        Event.MEMBER_ADDED: Step(Action.START_FIRST_REBALANCE, _PREPARING),
        Event.MEMBER_CHANGED: Step(Action.REFUSE_UNKNOWN_MEMBER, _EMPTY),
        Event.LEADER_REJOINED: Step(Action.REFUSE_UNKNOWN_MEMBER, _EMPTY),
        Event.JOIN_REPEATED: Step(Action.REFUSE_UNKNOWN_MEMBER, _EMPTY),
        Event.LEADER_SYNCED: Step(Action.REFUSE_UNKNOWN_MEMBER, _EMPTY),
        Event.FOLLOWER_SYNCED: Step(Action.REFUSE_UNKNOWN_MEMBER, _EMPTY),
        Event.ASSIGNMENT_STORED: Step(Action.NOTHING, _EMPTY),
        Event.ASSIGNMENT_LOST: Step(Action.NOTHING, _EMPTY),
        Event.HEARTBEAT: Step(Action.REFUSE_UNKNOWN_MEMBER, _EMPTY),
        Event.COMMIT: Step(Action.ACCEPT, _EMPTY),
        Event.PENDING_GONE: Step(Action.NOTHING, _EMPTY),
        Event.SYNC_TIMEOUT: Step(Action.NOTHING, _EMPTY),
        Event.DELETE: Step(Action.REMOVE, _DEAD),
    },
    # Waiting for JoinGroup of every member. A heartbeat tells the others to join; an assignment that is still on its
    # way to the log belongs to the generation that just ended.
    _PREPARING: {
        Event.MEMBER_ADDED: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.MEMBER_CHANGED: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.LEADER_REJOINED: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.JOIN_REPEATED: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.STATIC_REPLACED: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.STATIC_CHANGED: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.LEADER_SYNCED: Step(Action.REFUSE_REBALANCING, _PREPARING),
        Event.FOLLOWER_SYNCED: Step(Action.REFUSE_REBALANCING, _PREPARING),
        Event.ASSIGNMENT_STORED: Step(Action.NOTHING, _PREPARING),
        Event.ASSIGNMENT_LOST: Step(Action.NOTHING, _PREPARING),
        Event.HEARTBEAT: Step(Action.REFUSE_REBALANCING, _PREPARING),
        Event.COMMIT: Step(Action.ACCEPT, _PREPARING),
        Event.MEMBER_GONE: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.PENDING_GONE: Step(Action.FINISH_JOIN_IF_ALL_THERE, _PREPARING),
        Event.JOINED: Step(Action.BEGIN_GENERATION, _COMPLETING),
        Event.NOBODY_JOINED: Step(Action.STORE_EMPTY, _EMPTY),
        Event.SYNC_TIMEOUT: Step(Action.NOTHING, _PREPARING),
        Event.DELETE: Step(Action.REFUSE_NOT_EMPTY, _PREPARING),
    },
    # The generation is known, its assignment is not. A commit cannot be right yet: the member may lose the partition.
    _COMPLETING: {
        Event.MEMBER_ADDED: Step(Action.RESTART_REBALANCE, _PREPARING),
        Event.MEMBER_CHANGED: Step(Action.RESTART_REBALANCE, _PREPARING),
        Event.LEADER_REJOINED: Step(Action.ANSWER_GENERATION, _COMPLETING),
        Event.JOIN_REPEATED: Step(Action.ANSWER_GENERATION, _COMPLETING),
        # The leader may have the old member id in its list, and would assign to nobody.
        Event.STATIC_REPLACED: Step(Action.RESTART_REBALANCE, _PREPARING),
        Event.STATIC_CHANGED: Step(Action.RESTART_REBALANCE, _PREPARING),
        Event.LEADER_SYNCED: Step(Action.STORE_ASSIGNMENT, _COMPLETING),
        Event.FOLLOWER_SYNCED: Step(Action.WAIT_FOR_ASSIGNMENT, _COMPLETING),
        Event.ASSIGNMENT_STORED: Step(Action.HAND_OUT_ASSIGNMENT, _STABLE),
        Event.ASSIGNMENT_LOST: Step(Action.FAIL_ASSIGNMENT, _PREPARING),
        Event.HEARTBEAT: Step(Action.ACCEPT, _COMPLETING),
        Event.COMMIT: Step(Action.REFUSE_REBALANCING, _COMPLETING),
        Event.MEMBER_GONE: Step(Action.RESTART_REBALANCE, _PREPARING),
        Event.PENDING_GONE: Step(Action.NOTHING, _COMPLETING),
        Event.SYNC_TIMEOUT: Step(Action.EVICT_UNSYNCED, _PREPARING),
        Event.DELETE: Step(Action.REFUSE_NOT_EMPTY, _COMPLETING),
    },
    # Everybody has its partitions. The leader alone sees what metadata do not show (new partitions), so its JoinGroup
    # counts.
    _STABLE: {
        Event.MEMBER_ADDED: Step(Action.START_REBALANCE, _PREPARING),
        Event.MEMBER_CHANGED: Step(Action.START_REBALANCE, _PREPARING),
        Event.LEADER_REJOINED: Step(Action.START_REBALANCE, _PREPARING),
        Event.JOIN_REPEATED: Step(Action.ANSWER_GENERATION, _STABLE),
        Event.STATIC_REPLACED: Step(Action.STORE_MEMBERS, _STABLE),
        Event.STATIC_CHANGED: Step(Action.START_REBALANCE, _PREPARING),
        Event.LEADER_SYNCED: Step(Action.ANSWER_ASSIGNMENT, _STABLE),
        Event.FOLLOWER_SYNCED: Step(Action.ANSWER_ASSIGNMENT, _STABLE),
        Event.ASSIGNMENT_STORED: Step(Action.NOTHING, _STABLE),
        Event.ASSIGNMENT_LOST: Step(Action.NOTHING, _STABLE),
        Event.HEARTBEAT: Step(Action.ACCEPT, _STABLE),
        Event.COMMIT: Step(Action.ACCEPT, _STABLE),
        Event.MEMBER_GONE: Step(Action.START_REBALANCE, _PREPARING),
        Event.PENDING_GONE: Step(Action.NOTHING, _STABLE),
        Event.SYNC_TIMEOUT: Step(Action.EVICT_UNSYNCED, _PREPARING),
        Event.DELETE: Step(Action.REFUSE_NOT_EMPTY, _STABLE),
    },
    # Deleted while something still held it. Nothing leads out of here; whoever asks must look for the coordinator anew.
    _DEAD: {
        Event.MEMBER_ADDED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.MEMBER_CHANGED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.LEADER_REJOINED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.JOIN_REPEATED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.STATIC_REPLACED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.STATIC_CHANGED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.LEADER_SYNCED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.FOLLOWER_SYNCED: Step(Action.REFUSE_DEAD, _DEAD),
        Event.ASSIGNMENT_STORED: Step(Action.NOTHING, _DEAD),
        Event.ASSIGNMENT_LOST: Step(Action.NOTHING, _DEAD),
        Event.HEARTBEAT: Step(Action.REFUSE_DEAD, _DEAD),
        Event.COMMIT: Step(Action.REFUSE_DEAD, _DEAD),
        Event.MEMBER_GONE: Step(Action.NOTHING, _DEAD),
        Event.PENDING_GONE: Step(Action.NOTHING, _DEAD),
        Event.SYNC_TIMEOUT: Step(Action.NOTHING, _DEAD),
        Event.DELETE: Step(Action.REFUSE_NOT_FOUND, _DEAD),
    },
}


def step(state: GroupState, event: Event) -> Step:
    """What the event means in this state."""
    found = TABLE[state].get(event)
    assert found is not None, f"{event.name} cannot happen in {state.name}"
    return found
