"""What voters say to each other, as bytes. The core's messages are dictionaries; here is the layout of each, and nothing is ever unpickled.

All numbers are big-endian. The first byte is the kind:

    1  append_entries   term u64, commit u64, flags u8, [prev_index u64, prev_term u64,] then to the end, per entry: term u64, length u32, command
                        flags: 1 = prev_index and prev_term are there. The entries follow prev_index without a gap, so they carry no index.
    2  append_entries   term u64, commit u64, flags u8, a piece of the snapshot to the end
       with a snapshot  flags: 1 = a piece is there, 2 = it is the first, 4 = it is the last
    3  next_node_idx    term u64, next_index u64, flags u8: 1 = reset, 2 = success       the acknowledgement
    4  request_vote     term u64, last_index u64, last_term u64
    5  response_vote    term u64
    6  timeout_now      term u64

and our own, which the core doesn't know:

    7  pre_vote         term u64, last_index u64, last_term u64     would you vote for me in this term?
    8  pre_vote_answer  term u64, granted u8                        the term that was asked for, or where it is refused the sender's own
    9  member           nothing                                     from now on the sender votes and counts
    10 caught_up        term u64, index u64                         the leader to a voter that doesn't count yet: you have all that is committed
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kafkapy.errors import ProtocolError

Message = dict[str, Any]

_APPEND = struct.Struct(">BQQB")
_PREV = struct.Struct(">QQ")
_ENTRY = struct.Struct(">QI")
_ACK = struct.Struct(">BQQB")
_LOG_END = struct.Struct(">BQQQ")
_TERM = struct.Struct(">BQ")
_ANSWER = struct.Struct(">BQB")
_PLACE = struct.Struct(">BQQ")

APPEND, SNAPSHOT, ACK, REQUEST_VOTE, VOTE, TIMEOUT_NOW, PRE_VOTE, PRE_VOTE_ANSWER, MEMBER, CAUGHT_UP = range(1, 11)
_LOG_END_KINDS = {"request_vote": REQUEST_VOTE, "pre_vote": PRE_VOTE}
_TERM_KINDS = {"response_vote": VOTE, "timeout_now": TIMEOUT_NOW}
_HAS_PREV = 1
_HAS_PIECE, _IS_FIRST, _IS_LAST = 1, 2, 4
_RESET, _SUCCESS = 1, 2

MEMBER_MESSAGE = bytes((MEMBER,))


def encode(message: Message) -> bytes:
    """The bytes of one of the messages above; anything else is a path in the core that is never meant to be taken."""
    kind = message["type"]
    if kind == "append_entries":
        return _encode_snapshot(message) if "serialized" in message else _encode_append(message)
    if kind == "next_node_idx":
        flags = (_RESET if message["reset"] else 0) | (_SUCCESS if message["success"] else 0)
        return _ACK.pack(ACK, message["term"], message["next_node_idx"], flags)
    if kind in _LOG_END_KINDS:
        log_end = (message["last_log_index"], message["last_log_term"])
        return _LOG_END.pack(_LOG_END_KINDS[kind], message["term"], *log_end)
    if kind in _TERM_KINDS:
        return _TERM.pack(_TERM_KINDS[kind], message["term"])
    if kind == "pre_vote_answer":
        return _ANSWER.pack(PRE_VOTE_ANSWER, message["term"], message["granted"])
    assert kind == "caught_up", f"a message of type {kind}"
    return _PLACE.pack(CAUGHT_UP, message["term"], message["index"])


def _encode_append(message: Message) -> bytes:
    assert "transmission" not in message, "an entry larger than a message may be"
    prev_index = message["prevLogIdx"]
    flags = 0 if prev_index is None else _HAS_PREV
    parts = [_APPEND.pack(APPEND, message["term"], message["commit_index"], flags)]
    if prev_index is not None:
        parts.append(_PREV.pack(prev_index, message["prevLogTerm"]))
        for command, _, term in message["entries"]:
            parts += (_ENTRY.pack(term, len(command)), command)
    return b"".join(parts)


def _encode_snapshot(message: Message) -> bytes:
    piece, is_first, is_last = message["serialized"] or (b"", False, False)
    flags = _HAS_PIECE if message["serialized"] else 0
    flags |= (_IS_FIRST if is_first else 0) | (_IS_LAST if is_last else 0)
    return _APPEND.pack(SNAPSHOT, message["term"], message["commit_index"], flags) + piece


def decode(payload: bytes) -> Message:
    """The message that these bytes are; ProtocolError where they are none."""
    decoder = _DECODERS.get(payload[0]) if payload else None
    if decoder is None:
        raise ProtocolError(f"a voter's message of unknown kind {payload[:1].hex() or 'none'}")
    try:
        return decoder(payload)
    except struct.error as error:
        raise ProtocolError(f"a voter's message of kind {payload[0]} with {len(payload)} bytes") from error


def _decode_append(payload: bytes) -> Message:
    _, term, commit_index, flags = _APPEND.unpack_from(payload)
    prev_index = prev_term = None
    entries: list[tuple[bytes, int, int]] = []
    position = _APPEND.size
    if flags & _HAS_PREV:
        prev_index, prev_term = _PREV.unpack_from(payload, position)
        position += _PREV.size
        while position < len(payload):
            entry_term, length = _ENTRY.unpack_from(payload, position)
            position += _ENTRY.size
            if not 0 < length <= len(payload) - position:
                raise ProtocolError(f"a raft entry of {length} bytes in a message that has {len(payload) - position}")
            entries.append((payload[position : position + length], prev_index + 1 + len(entries), entry_term))
            position += length
    return {
        "type": "append_entries",
        "term": term,
        "commit_index": commit_index,
        "entries": entries,
        "prevLogIdx": prev_index,
        "prevLogTerm": prev_term,
    }


def _decode_snapshot(payload: bytes) -> Message:
    _, term, commit_index, flags = _APPEND.unpack_from(payload)
    piece = (payload[_APPEND.size :], bool(flags & _IS_FIRST), bool(flags & _IS_LAST)) if flags & _HAS_PIECE else None
    return {"type": "append_entries", "term": term, "commit_index": commit_index, "serialized": piece}


def _decode_ack(payload: bytes) -> Message:
    _, term, next_index, flags = _ACK.unpack(payload)
    return {
        "type": "next_node_idx",
        "term": term,
        "next_node_idx": next_index,
        "reset": bool(flags & _RESET),
        "success": bool(flags & _SUCCESS),
    }


def _log_end_decoder(name: str) -> Callable[[bytes], Message]:
    def decode_log_end(payload: bytes) -> Message:
        _, term, last_index, last_term = _LOG_END.unpack(payload)
        return {"type": name, "term": term, "last_log_index": last_index, "last_log_term": last_term}

    return decode_log_end


def _term_decoder(name: str) -> Callable[[bytes], Message]:
    return lambda payload: {"type": name, "term": _TERM.unpack(payload)[1]}


def _decode_answer(payload: bytes) -> Message:
    _, term, granted = _ANSWER.unpack(payload)
    return {"type": "pre_vote_answer", "term": term, "granted": bool(granted)}


def _decode_member(payload: bytes) -> Message:
    return {"type": "member"}


def _decode_caught_up(payload: bytes) -> Message:
    _, term, index = _PLACE.unpack(payload)
    return {"type": "caught_up", "term": term, "index": index}


_DECODERS: dict[int, Callable[[bytes], Message]] = {
    APPEND: _decode_append,
    SNAPSHOT: _decode_snapshot,
    ACK: _decode_ack,
    REQUEST_VOTE: _log_end_decoder("request_vote"),
    VOTE: _term_decoder("response_vote"),
    TIMEOUT_NOW: _term_decoder("timeout_now"),
    PRE_VOTE: _log_end_decoder("pre_vote"),
    PRE_VOTE_ANSWER: _decode_answer,
    MEMBER: _decode_member,
    CAUGHT_UP: _decode_caught_up,
}
