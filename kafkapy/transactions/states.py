"""The state machine of a transactional id, as a table.

Theory of operation. A producer opens a transaction by adding its first partition and ends it with EndTxn. The end has
two phases. The *prepare* record is the decision: from the moment it is replicated the transaction will be committed
(or aborted) come what may, and nothing else happens to the id until a marker stands in every partition. The *complete*
record only says that this is done. A coordinator that finds a prepared transaction in its log writes the markers again.

               ┌──── InitProducerId ────┐
               ▼                        │
    ┌──────> EMPTY ──partition added──> ONGOING ──EndTxn(commit)──> PREPARE_COMMIT ──markers──> COMPLETE_COMMIT ─┐
    │                  ▲                  │                                                                      │
    │                  │                  ├──EndTxn(abort)────────> PREPARE_ABORT ───markers──> COMPLETE_ABORT ──┤
    │                  │                  │                               ▲                                      │
    │                  │                  └──time is up, or a new producer: PREPARE_EPOCH_FENCE                  │
    │                  └──────────────────────────── partition added ────────────────────────────────────────────┤
    └──────────────────────────────────────────────── InitProducerId ────────────────────────────────────────────┘

Who may do this is asked first: the producer id must be the one of the transactional id, and its epoch the current one.
A newer producer, and the coordinator itself when it aborts, raise the epoch; whoever comes with an older one is fenced.

There are two protocols, and both stay in use, chosen by the version of each request:

- Transactions V1 (EndTxn up to version 4). The epoch stays the same from transaction to transaction, so an EndTxn that
  is repeated, or arrives late, cannot be told from one that means the next transaction.
- Transactions V2 (KIP-890, EndTxn 5 and above). Each end raises the epoch. An EndTxn with the epoch before the current one
  is the repetition of the last one (`..._AGAIN` below) and is answered as that was; one that is late by more is fenced.
  A producer may abort without having added anything, to have its epoch raised.

DEAD and PREPARE_EPOCH_FENCE are passed through within one decision, and no record carries them. They have names because
ListTransactions knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, auto

from kafkapy.errors import ErrorCode, KafkaError


class TransactionState(IntEnum):
    """The states, with the numbers that TransactionLogValue stores."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that DescribeTransactions and ListTransactions report."""
        return _LABELS[self]


_LABELS = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATE_BY_LABEL = {label: state for state, label in _LABELS.items()}


class Event(Enum):
    """What can happen to a transactional id. Epochs were checked before, except where the name says so."""

    INIT = auto()  # InitProducerId of a new producer, or of one that starts again
    ADD = auto()  # partitions join the transaction
    COMMIT_V1 = auto()  # EndTxn of Transactions V1
    ABORT_V1 = auto()
    COMMIT = auto()  # EndTxn of Transactions V2 with the current epoch
    ABORT = auto()
    COMMIT_AGAIN = auto()  # EndTxn of Transactions V2 with the epoch before the current one
    ABORT_AGAIN = auto()
    TIME_OUT = auto()  # open for longer than the producer's timeout
    FENCE = auto()  # the coordinator aborts on its own account
    MARKED = auto()  # a marker stands in every partition
    EXPIRE = auto()  # not used for transactional.id.expiration.ms


Row = Mapping[Event, TransactionState | ErrorCode]

_S = TransactionState
_BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
_INVALID = ErrorCode.INVALID_TXN_STATE
_FENCED = ErrorCode.PRODUCER_FENCED
_DONE = ErrorCode.NONE

# While markers are on their way everything else has to wait.
_PREPARED: Row = {**dict.fromkeys(Event, _BUSY), Event.FENCE: _INVALID}

# Each event leads to a state, or to an error, or to NONE: it has happened before, and there is nothing to write.
TABLE: Mapping[TransactionState, Row] = {
    _S.EMPTY: {
        Event.INIT: _S.EMPTY,
        Event.ADD: _S.ONGOING,
        Event.COMMIT_V1: _INVALID,
        Event.ABORT_V1: _INVALID,
        Event.COMMIT: _INVALID,
        Event.ABORT: _S.PREPARE_ABORT,
        Event.COMMIT_AGAIN: _FENCED,
        Event.ABORT_AGAIN: _FENCED,
        Event.TIME_OUT: _INVALID,
        Event.FENCE: _INVALID,
        Event.MARKED: _INVALID,
        Event.EXPIRE: _S.DEAD,
    },
    _S.ONGOING: {
        Event.INIT: _S.PREPARE_EPOCH_FENCE,
        Event.ADD: _S.ONGOING,
        Event.COMMIT_V1: _S.PREPARE_COMMIT,
        Event.ABORT_V1: _S.PREPARE_ABORT,
        Event.COMMIT: _S.PREPARE_COMMIT,
        Event.ABORT: _S.PREPARE_ABORT,
        Event.COMMIT_AGAIN: _FENCED,
        Event.ABORT_AGAIN: _FENCED,
        Event.TIME_OUT: _S.PREPARE_EPOCH_FENCE,
        Event.FENCE: _INVALID,
        Event.MARKED: _INVALID,
        Event.EXPIRE: _BUSY,
    },
    _S.PREPARE_COMMIT: {**_PREPARED, Event.MARKED: _S.COMPLETE_COMMIT},
    _S.PREPARE_ABORT: {**_PREPARED, Event.MARKED: _S.COMPLETE_ABORT},
    _S.COMPLETE_COMMIT: {
        Event.INIT: _S.EMPTY,
        Event.ADD: _S.ONGOING,
        Event.COMMIT_V1: _DONE,
        Event.ABORT_V1: _INVALID,
        Event.COMMIT: _INVALID,
        Event.ABORT: _S.PREPARE_ABORT,
        Event.COMMIT_AGAIN: _DONE,
        Event.ABORT_AGAIN: _INVALID,
        Event.TIME_OUT: _INVALID,
        Event.FENCE: _INVALID,
        Event.MARKED: _INVALID,
        Event.EXPIRE: _S.DEAD,
    },
    _S.COMPLETE_ABORT: {
        Event.INIT: _S.EMPTY,
        Event.ADD: _S.ONGOING,
        Event.COMMIT_V1: _INVALID,
        Event.ABORT_V1: _DONE,
        Event.COMMIT: _INVALID,
        Event.ABORT: _S.PREPARE_ABORT,
        # The coordinator aborted first. INVALID_TXN_STATE, which Kafka 4.3 answers here, kills a Streams thread for
        # good; fenced, it starts again (KAFKA-20785).
        Event.COMMIT_AGAIN: _FENCED,
        Event.ABORT_AGAIN: _DONE,
        Event.TIME_OUT: _INVALID,
        Event.FENCE: _INVALID,
        Event.MARKED: _INVALID,
        Event.EXPIRE: _S.DEAD,
    },
    _S.DEAD: dict.fromkeys(Event, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    _S.PREPARE_EPOCH_FENCE: {**_PREPARED, Event.FENCE: _S.PREPARE_ABORT},
}


def step(state: TransactionState, event: Event) -> TransactionState | None:
    """The state that the event leads to; None if it has happened before. Raises KafkaError if it must not happen."""
    found = TABLE[state][event]
    if isinstance(found, TransactionState):
        return found
    if found is _DONE:
        return None
    raise KafkaError(found, f"{event.name} in state {state.label}")
