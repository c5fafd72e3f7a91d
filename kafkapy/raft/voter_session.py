"""One link between two voters, without its socket: who the other one is, proven, and frames that nobody else can have made.

Both sides say who they are, prove that they know the cluster's secret, and only then look at what was said about disks; whatever does not fit is a
refusal with a reason that both sides log. No message of raft passes before that, and a refused peer changes nothing.

    dialler    HELLO  ->                         its claims
               <-  HELLO, PROOF                  the acceptor's claims, and HMAC(key, "acceptor" + both HELLOs)
               PROOF  ->                         HMAC(key, "dialler" + both HELLOs)
               <-  WELCOME                       HMAC(key, "welcome" + both HELLOs)
    either     REFUSED                           in place of its next message, then it closes

Each HELLO has a nonce, so a proof is of use once; the role in it keeps it from being sent back to its maker. A frame of the handshake is

    length u32, magic "KPYV", kind u8, body          at most HANDSHAKE_BYTES_MAX
    HELLO    version u8, standing u8, flags u8 (1 = its journal was made in this start, 2 = its journal has entries), node_id i32,
             directory_id 16, incarnation 16, nonce 32, cluster_id (length u16, UTF-8), voters (length u16, UTF-8: ID@HOST:PORT,... sorted by id)
    PROOF    32 bytes
    WELCOME  32 bytes
    REFUSED  reason u8

The magic is where a Kafka request has its API key, and no API has that one. Afterwards, in both directions, a frame is

    length u32, mac 16, payload                      length counts mac and payload; an empty payload says "still here"

mac is the beginning of HMAC-SHA256 over a counter (u64) and the payload, with a key for this session and direction: frames can be neither
changed nor repeated nor moved to another connection.

The key comes from `kafkapy.quorum.secret`, or from the cluster id where that isn't set; that keeps strangers' mistakes out, not strangers who know
the cluster id.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kafkapy.errors import ProtocolError

MAGIC = b"KPYV"
VERSION = 1
HANDSHAKE_BYTES_MAX = 4096
# The largest message there is: an entry of the raft log may have 64 MiB.
FRAME_BYTES_MAX = 65 * 1024 * 1024
NONCE_BYTES = 32
_MAC_BYTES = 16
_JOURNAL_IS_NEW, _HAS_HISTORY = 1, 2
_HELLO, _PROOF, _WELCOME, _REFUSED = 1, 2, 3, 4
_LENGTH = struct.Struct(">I")
_COUNTER = struct.Struct(">Q")
_CLAIMS = struct.Struct(">BBBi16s16s32s")
_SHORT = struct.Struct(">H")


class Standing(IntEnum):
    """What a voter's word counts: see voter_identity.py."""

    MEMBER = 0
    NEWCOMER = 1
    REJOINING = 2
    JOINING = 3

    @property
    def counts(self) -> bool:
        """Whether its votes and acknowledgements do."""
        return self in (Standing.MEMBER, Standing.JOINING)


class Refusal(IntEnum):
    """Why two voters do not talk."""

    VERSION = 1
    CLUSTER_ID = 2
    VOTERS = 3
    NOT_A_VOTER = 4
    SAME_ID = 5
    WRONG_NODE = 6
    SECRET = 7
    OTHER_DISK = 8
    LOST_JOURNAL = 9
    TWICE = 10


class Claims(NamedTuple):
    """What a voter says about itself. `incarnation` differs in each start of a process."""

    node_id: int
    cluster_id: str
    directory_id: bytes
    incarnation: bytes
    voters: str
    standing: Standing = Standing.MEMBER
    journal_is_new: bool = False
    has_history: bool = False

    @property
    def voter_ids(self) -> frozenset[int]:
        """The ids in `voters`."""
        return frozenset(int(voter.partition("@")[0]) for voter in self.voters.split(",") if voter)


class RefusedError(Exception):
    """This link does not come about. `told` is whether the peer said so, rather than we."""

    def __init__(self, refusal: Refusal, peer: Claims | None, told: bool) -> None:
        super().__init__(refusal.name)
        self.refusal = refusal
        self.peer = peer
        self.told = told


def voters_text(voters: Mapping[int, tuple[str, int]]) -> str:
    """A list of voters in the one form in which it is compared."""
    shown = []
    for node_id, (host, port) in sorted(voters.items()):
        shown.append(f"{node_id}@[{host}]:{port}" if ":" in host else f"{node_id}@{host}:{port}")
    return ",".join(shown)


def link_key(secret: str | None, cluster_id: str) -> bytes:
    """The key of all links of a cluster."""
    if secret:
        return hmac.digest(b"kafkapy voter link, secret", secret.encode(), "sha256")
    return hmac.digest(b"kafkapy voter link, cluster id", cluster_id.encode(), "sha256")


Judge = Callable[[Claims], Refusal | None]


class Session:
    """One side of a link. Bytes to send gather in `outgoing`; bytes received go to `feed`."""

    def __init__(self, own: Claims, key: bytes, nonce: bytes, judge: Judge, dialled: int | None = None) -> None:
        """`dialled` is the voter whom we have called, None where we were called. `judge` is asked once the peer has proven itself."""
        self.own = own
        self.peer: Claims | None = None
        self.established = False
        self.outgoing = bytearray()
        self._key = key
        self._judge = judge
        self._dialled = dialled
        self._incoming = bytearray()
        self._own_hello = _encode_claims(own, nonce)
        self._transcript = b""
        self._peer_proof_is_due = False
        self._send_key = self._receive_key = b""
        self._sent = self._received = 0
        if dialled is not None:
            self._say(_HELLO, self._own_hello)

    # After the handshake.

    def seal(self, payload: bytes) -> bytes:
        """The frame of a message."""
        mac = hmac.digest(self._send_key, _COUNTER.pack(self._sent) + payload, "sha256")[:_MAC_BYTES]
        self._sent += 1
        return _LENGTH.pack(_MAC_BYTES + len(payload)) + mac + payload

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """Take bytes from the peer; the result is what it says, empty payloads included. ProtocolError, RefusedError."""
        incoming = self._incoming
        incoming += data
        payloads: list[bytes] = []
        position = 0
        while len(incoming) - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(incoming, position)
            if length > (FRAME_BYTES_MAX if self.established else HANDSHAKE_BYTES_MAX):
                raise ProtocolError(f"a voter's frame of {length} bytes")
            start = position + _LENGTH.size
            if len(incoming) - start < length:
                break
            frame = bytes(incoming[start : start + length])
            position = start + length
            if self.established:
                payloads.append(self._open(frame))
            else:
                self._shake_hands(frame)
        del incoming[:position]
        return payloads

    def _open(self, frame: bytes) -> bytes:
        payload = frame[_MAC_BYTES:]
        mac = hmac.digest(self._receive_key, _COUNTER.pack(self._received) + payload, "sha256")[:_MAC_BYTES]
        if not hmac.compare_digest(mac, frame[:_MAC_BYTES]):
            raise ProtocolError("a frame on a voter link that its peer has not made")
        self._received += 1
        return payload

    # The handshake.

    def _shake_hands(self, frame: bytes) -> None:
        if frame[:4] != MAGIC or len(frame) < 5:
            raise ProtocolError("not a voter's greeting")
        kind, body = frame[4], frame[5:]
        if kind == _REFUSED and len(body) == 1:
            raise RefusedError(_refusal(body[0]), self.peer, told=True)
        if kind == _HELLO and self.peer is None:
            self._take_hello(body)
        elif kind == _PROOF and self._peer_proof_is_due:
            self._take_proof(body)
        elif kind == _WELCOME and self._dialled is not None and self.peer is not None and not self._peer_proof_is_due:
            if not hmac.compare_digest(body, self._mac(b"welcome")):
                raise self._refuse(Refusal.SECRET)
            self._establish()
        else:
            raise ProtocolError(f"a voter's greeting in the wrong order, kind {kind}")

    def _take_hello(self, body: bytes) -> None:
        if not body or body[0] != VERSION:
            raise self._refuse(Refusal.VERSION)
        self.peer = peer = _decode_claims(body)
        if self._dialled is None:
            self._say(_HELLO, self._own_hello)
            self._transcript = body + self._own_hello
        else:
            self._transcript = self._own_hello + body
        refusal = _mismatch(self.own, peer, self._dialled)
        if refusal is not None:
            raise self._refuse(refusal)
        self._peer_proof_is_due = True
        if self._dialled is None:
            self._say(_PROOF, self._mac(b"acceptor"))

    def _take_proof(self, body: bytes) -> None:
        assert self.peer is not None
        self._peer_proof_is_due = False
        expected = b"dialler" if self._dialled is None else b"acceptor"
        if not hmac.compare_digest(body, self._mac(expected)):
            raise self._refuse(Refusal.SECRET)
        refusal = self._judge(self.peer)
        if refusal is not None:
            raise self._refuse(refusal)
        if self._dialled is None:
            self._say(_WELCOME, self._mac(b"welcome"))
            self._establish()
        else:
            self._say(_PROOF, self._mac(b"dialler"))

    def _establish(self) -> None:
        self.established = True
        keys = (self._mac(b"frames from the dialler"), self._mac(b"frames from the acceptor"))
        self._send_key, self._receive_key = keys if self._dialled is not None else reversed(keys)

    def _refuse(self, refusal: Refusal) -> RefusedError:
        self._say(_REFUSED, bytes((refusal,)))
        return RefusedError(refusal, self.peer, told=False)

    def _mac(self, label: bytes) -> bytes:
        return hmac.digest(self._key, label + hashlib.sha256(self._transcript).digest(), "sha256")

    def _say(self, kind: int, body: bytes) -> None:
        self.outgoing += _LENGTH.pack(5 + len(body)) + MAGIC + bytes((kind,)) + body


def _mismatch(own: Claims, peer: Claims, dialled: int | None) -> Refusal | None:
    """What is wrong before anything is proven."""
    if peer.cluster_id != own.cluster_id:
        return Refusal.CLUSTER_ID
    if peer.node_id == own.node_id:
        return Refusal.SAME_ID
    if peer.voter_ids != own.voter_ids:
        return Refusal.VOTERS
    if peer.node_id not in own.voter_ids:
        return Refusal.NOT_A_VOTER
    if dialled not in (None, peer.node_id):
        return Refusal.WRONG_NODE
    return None


def _refusal(number: int) -> Refusal:
    try:
        return Refusal(number)
    except ValueError as error:
        raise ProtocolError(f"a voter refuses for reason {number}, which this version does not know") from error


def _encode_claims(claims: Claims, nonce: bytes) -> bytes:
    assert len(nonce) == NONCE_BYTES
    head = _CLAIMS.pack(
        VERSION,
        claims.standing,
        (_JOURNAL_IS_NEW if claims.journal_is_new else 0) | (_HAS_HISTORY if claims.has_history else 0),
        claims.node_id,
        claims.directory_id,
        claims.incarnation,
        nonce,
    )
    texts = (claims.cluster_id.encode(), claims.voters.encode())
    return head + b"".join(_SHORT.pack(len(text)) + text for text in texts)


def _decode_claims(body: bytes) -> Claims:
    try:
        _, standing, flags, node_id, directory_id, incarnation, _ = _CLAIMS.unpack_from(body)
        position = _CLAIMS.size
        texts = []
        for _ in range(2):
            (length,) = _SHORT.unpack_from(body, position)
            position += _SHORT.size + length
            texts.append(body[position - length : position].decode())
        if position != len(body):
            raise ProtocolError("a voter's greeting of the wrong length")
        is_new, has_history = bool(flags & _JOURNAL_IS_NEW), bool(flags & _HAS_HISTORY)
        claims = Claims(node_id, texts[0], directory_id, incarnation, texts[1], Standing(standing), is_new, has_history)
        if not claims.voter_ids:  # Also raises where they are no numbers.
            raise ProtocolError("a voter's greeting without voters")
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"a voter's greeting that cannot be read: {error}") from error
    return claims
