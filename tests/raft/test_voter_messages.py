"""What voters say to each other is what arrives, and whatever else arrives is refused without harm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.errors import ProtocolError
from kafkapy.raft.voter_messages import MEMBER_MESSAGE, decode, encode

NUMBERS = st.integers(0, 2**64 - 1)
COMMANDS = st.binary(min_size=1, max_size=300)


@st.composite
def appends(draw: Any) -> dict[str, Any]:
    """Messages with entries, as the core makes them."""
    prev_index = draw(st.one_of(st.none(), st.integers(0, 2**60)))
    commands = [] if prev_index is None else draw(st.lists(st.tuples(COMMANDS, NUMBERS), max_size=4))
    return {
        "type": "append_entries",
        "term": draw(NUMBERS),
        "commit_index": draw(NUMBERS),
        "entries": [(command, prev_index + 1 + i, term) for i, (command, term) in enumerate(commands)],
        "prevLogIdx": prev_index,
        "prevLogTerm": None if prev_index is None else draw(NUMBERS),
    }


def fixed(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Messages of one type."""
    return st.fixed_dictionaries({name: st.just(f) if isinstance(f, str) else f for name, f in fields.items()})


PIECES = st.one_of(st.none(), st.tuples(st.binary(max_size=300), st.booleans(), st.booleans()))
MESSAGES = st.one_of(
    appends(),
    fixed(type="append_entries", term=NUMBERS, commit_index=NUMBERS, serialized=PIECES),
    fixed(type="next_node_idx", term=NUMBERS, next_node_idx=NUMBERS, reset=st.booleans(), success=st.booleans()),
    fixed(type="request_vote", term=NUMBERS, last_log_index=NUMBERS, last_log_term=NUMBERS),
    fixed(type="pre_vote", term=NUMBERS, last_log_index=NUMBERS, last_log_term=NUMBERS),
    fixed(type="response_vote", term=NUMBERS),
    fixed(type="timeout_now", term=NUMBERS),
    fixed(type="pre_vote_answer", term=NUMBERS, granted=st.booleans()),
    fixed(type="caught_up", term=NUMBERS, index=NUMBERS),
)


@given(MESSAGES)
def test_a_message_arrives_as_it_was_sent(message: dict[str, Any]) -> None:
    """All that the core says survives the way, and it is never pickled."""
    assert decode(encode(message)) == message


def test_a_member_says_so() -> None:
    """The one message that is not the quorum's."""
    assert decode(MEMBER_MESSAGE) == {"type": "member"}


@given(st.one_of(st.binary(max_size=80), st.builds(lambda m, n: encode(m)[:n], MESSAGES, st.integers(0, 40))))
def test_garbage_is_refused(payload: bytes) -> None:
    """Any bytes are either a message or a ProtocolError."""
    try:
        message = decode(payload)
    except ProtocolError:
        return
    assert isinstance(message["type"], str)


def test_an_entry_that_claims_more_than_there_is_is_refused() -> None:
    """A length never leads beyond the message."""
    message = {"type": "append_entries", "term": 1, "commit_index": 1, "prevLogIdx": 5, "prevLogTerm": 1}
    payload = encode({**message, "entries": [(b"command", 6, 1)]})
    with pytest.raises(ProtocolError, match="raft entry"):
        decode(payload[:-1])


def test_a_command_forwarded_to_the_leader_is_not_a_message() -> None:
    """The core knows such messages; ours have no place for them."""
    with pytest.raises(AssertionError, match="apply_command"):
        encode({"type": "apply_command", "command": b"x"})
