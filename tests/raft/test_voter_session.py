"""Two voters greet each other: whoever fits gets through, and whatever doesn't is refused with its reason on both sides."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.errors import ProtocolError
from kafkapy.raft.voter_identity import explain
from kafkapy.raft.voter_session import (
    HANDSHAKE_BYTES_MAX,
    NONCE_BYTES,
    Claims,
    Refusal,
    RefusedError,
    Session,
    link_key,
    voters_text,
)

VOTERS = voters_text({1: ("a", 9093), 2: ("b", 9093), 3: ("::1", 9093)})
KEY = link_key(None, "cluster")


def claims(node_id: int, **changed: Any) -> Claims:
    """What a well-behaved voter says of itself."""
    return Claims(node_id, "cluster", bytes([node_id]) * 16, bytes([100 + node_id]) * 16, VOTERS)._replace(**changed)


def no_objection(peer: Claims) -> None:
    """The disk is the right one."""


def pair(
    dialler: Claims, acceptor: Claims, *, keys: tuple[bytes, bytes] = (KEY, KEY), judges: Any = (no_objection,) * 2
) -> tuple[Session, Session]:
    """The two sides of a connection on which nothing has been received yet."""
    nonces = (b"1" * NONCE_BYTES, b"2" * NONCE_BYTES)
    return (
        Session(dialler, keys[0], nonces[0], judges[0], dialled=1),
        Session(acceptor, keys[1], nonces[1], judges[1]),
    )


def shake_hands(one: Session, other: Session) -> list[RefusedError]:
    """Pass bytes until neither has anything to say; what either side raises is returned."""
    errors: dict[Session, RefusedError] = {}
    sides = [(one, other), (other, one)]
    while any(sender.outgoing for sender, _ in sides):
        for sender, receiver in sides:
            data, sender.outgoing = bytes(sender.outgoing), bytearray()
            if receiver in errors:
                continue  # It has closed the connection.
            try:
                receiver.feed(data)
            except RefusedError as error:
                errors[receiver] = error
    return list(errors.values())


def test_voters_that_fit_talk() -> None:
    """After the handshake messages go both ways, and each side knows who the other one is."""
    dialler, acceptor = pair(claims(2), claims(1))
    assert shake_hands(dialler, acceptor) == []
    assert dialler.established and acceptor.established
    assert (dialler.peer, acceptor.peer) == (claims(1), claims(2))
    assert acceptor.feed(dialler.seal(b"hello") + dialler.seal(b"")) == [b"hello", b""]
    assert dialler.feed(acceptor.seal(b"welcome")) == [b"welcome"]


@pytest.mark.parametrize(
    ("dialler", "acceptor", "reason"),
    [
        (claims(2), claims(1, cluster_id="other"), Refusal.CLUSTER_ID),
        (claims(1), claims(1), Refusal.SAME_ID),
        (claims(2), claims(1, voters="1@a:9093,2@b:9093"), Refusal.VOTERS),
        (claims(4), claims(1), Refusal.NOT_A_VOTER),
        (claims(2), claims(3), Refusal.WRONG_NODE),
    ],
)
def test_claims_that_do_not_fit_are_refused_on_both_sides(dialler: Claims, acceptor: Claims, reason: Refusal) -> None:
    """Each side finds out what is wrong, and says what to do about it."""
    sessions = pair(dialler, acceptor)
    errors = shake_hands(*sessions)
    assert {error.refusal for error in errors} == {reason}
    assert not any(session.established for session in sessions)
    for error in errors:
        assert explain(reason, dialler, error.peer, told=error.told)
    assert len(errors) >= 2


def test_other_secrets_are_refused_on_both_sides() -> None:
    """The dialler notices first, and tells."""
    sessions = pair(claims(2), claims(1), keys=(KEY, link_key("secret", "cluster")))
    errors = shake_hands(*sessions)
    assert [(error.refusal, error.told) for error in errors] == [(Refusal.SECRET, False), (Refusal.SECRET, True)]
    assert "kafkapy.quorum.secret" in explain(Refusal.SECRET, claims(2), claims(1), told=True)


@pytest.mark.parametrize("refuser", [0, 1])
def test_a_disk_that_does_not_fit_is_refused_on_both_sides(refuser: int) -> None:
    """Either side may know the other one with another disk; the other one is told."""
    judges = [no_objection, no_objection]
    judges[refuser] = lambda peer: Refusal.OTHER_DISK  # type: ignore[assignment,return-value]
    sessions = pair(claims(2), claims(1), judges=tuple(judges))
    errors = shake_hands(*sessions)
    assert {error.refusal for error in errors} == {Refusal.OTHER_DISK}
    assert {error.told for error in errors} == {False, True}
    text = explain(Refusal.OTHER_DISK, claims(2), claims(1), told=True)
    assert "this node" in text and "--rejoin" in text and "node 2" in text


def test_a_disk_is_judged_only_after_the_proof() -> None:
    """A stranger learns nothing about disks."""
    asked: list[Claims] = []
    judge = asked.append
    shake_hands(*pair(claims(2), claims(1), keys=(KEY, b"x" * 32), judges=(judge, judge)))
    assert asked == []


def test_a_proof_cannot_be_sent_back_to_its_maker() -> None:
    """A stranger who calls the acceptor and says what it says does not become a voter."""
    acceptor = pair(claims(2), claims(1))[1]
    stranger = Session(claims(2), b"?" * 32, b"2" * NONCE_BYTES, no_objection, dialled=1)
    acceptor.feed(bytes(stranger.outgoing))
    hello_and_proof = bytes(acceptor.outgoing)
    hello_length = 4 + int.from_bytes(hello_and_proof[:4], "big")
    with pytest.raises(RefusedError) as caught:
        acceptor.feed(hello_and_proof[hello_length:])
    assert caught.value.refusal is Refusal.SECRET
    assert not acceptor.established


def test_frames_cannot_be_changed_repeated_or_moved() -> None:
    """A frame is of use once, at its place, on its connection."""
    dialler, acceptor = pair(claims(2), claims(1))
    shake_hands(dialler, acceptor)
    frame = dialler.seal(b"vote for me")
    for wrong in (frame[:-1] + b"!", acceptor.seal(b"vote for me")):
        with pytest.raises(ProtocolError, match="has not made"):
            Session.feed(acceptor, wrong)
        acceptor._incoming.clear()
    assert acceptor.feed(frame) == [b"vote for me"]
    with pytest.raises(ProtocolError, match="has not made"):
        acceptor.feed(frame)


def test_a_stranger_may_not_send_much() -> None:
    """Before the proof a frame is small; nothing is kept for one that isn't."""
    acceptor = pair(claims(2), claims(1))[1]
    with pytest.raises(ProtocolError, match="frame of"):
        acceptor.feed((HANDSHAKE_BYTES_MAX + 1).to_bytes(4, "big"))


@given(st.binary(max_size=200), st.booleans())
def test_garbage_never_gets_through(data: bytes, begins_well: bool) -> None:
    """Whatever a stranger sends, it is refused or waited on, and nothing else is raised."""
    dialler, acceptor = pair(claims(2), claims(1))
    framed = (len(data) + 4).to_bytes(4, "big") + b"KPYV" + data
    with suppress(ProtocolError, RefusedError):
        acceptor.feed((bytes(dialler.outgoing) if begins_well else b"") + framed)
    assert not acceptor.established


def test_bytes_may_come_one_by_one() -> None:
    """Frames are put together from whatever arrives."""
    dialler, acceptor = pair(claims(2), claims(1))
    for _ in range(4):
        for sender, receiver in ((dialler, acceptor), (acceptor, dialler)):
            data, sender.outgoing = bytes(sender.outgoing), bytearray()
            for number in data:
                receiver.feed(bytes((number,)))
    payloads = [payload for byte in dialler.seal(b"slow") for payload in acceptor.feed(bytes((byte,)))]
    assert payloads == [b"slow"]
