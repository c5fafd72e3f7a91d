"""The links between the voters of the metadata quorum: sockets, clocks and log lines around raft/voter_session.py.

Each pair of voters has one connection, on the controller listener of the one with the lower id; the other one calls it. While there is none, both
of them keep looking whether the other's listener answers. That is how the end of a process is told from silence: a host that refuses has nobody
there, so if it was the leader, another one is elected at once (raft/voter_elections.py).

A link that has heard nothing for SILENT_S is given up and made anew, since TCP would wait for minutes; for that both sides say something at least
each PING_S. A stranger costs little: a connection that has not proven itself may send HANDSHAKE_BYTES_MAX, for HANDSHAKE_S, and there are
at most STRANGERS_MAX of them. Refusals are logged on both sides, each reason once a minute.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import ProtocolError
from kafkapy.raft import voter_messages
from kafkapy.raft.syncobj_quorum import LinkState, SyncObjQuorum
from kafkapy.raft.voter_identity import VoterIdentity, directory_id, explain
from kafkapy.raft.voter_session import (
    MAGIC,
    NONCE_BYTES,
    Claims,
    Refusal,
    RefusedError,
    Session,
    Standing,
    link_key,
    voters_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.raft.quorum import RunOnLoop

log = logging.getLogger("kafkapy.quorum")

PING_S = 0.5
SILENT_S = 2.0
HANDSHAKE_S = 2.0
CONNECT_S = 1.0
RETRY_MIN_S = 0.05
RETRY_MAX_S = 0.5
LASTING_S = 1.0
STRANGERS_MAX = 32
RECEIVE_BYTES = 256 * 1024
# More than this for a peer that does not take it, and its link is given up; the log is sent again afterwards.
BACKLOG_BYTES_MAX = 96 * 1024 * 1024
REFUSAL_LOGGED_EACH_S = 60.0

STANDINGS = {
    Standing.MEMBER: "this node votes in the metadata quorum, and may lead it, from now on",
    Standing.JOINING: "this node votes in the metadata quorum from now on; it may lead once it has everything that the others have",
    Standing.NEWCOMER: "this node's folder is new: it votes in the metadata quorum once it was in contact with all other controllers",
    Standing.REJOINING: "this node rejoins the metadata quorum: it votes once it has everything and was in contact with all other controllers",
}


class Link:
    """One connection between two voters. The quorum's thread sends on it, so a leader is heard while its loop is busy; the rest is the loop's."""

    def __init__(self, sock: socket.socket, session: Session, where: str, run_on_loop: RunOnLoop) -> None:
        self.sock = sock
        self.session = session
        self.where = where
        self.heard_at = self.said_at = time.monotonic()
        self.backlog_bytes = 0
        self.is_closed = False
        self.scope = trio.CancelScope()
        self.scope_of_drain = trio.CancelScope()
        self._run_on_loop = run_on_loop
        self._lock = threading.Lock()
        self._backlog: deque[memoryview] = deque()
        self._backlog_grew = trio.Event()

    def send(self, payload: bytes) -> None:
        """Send a message. On any thread."""
        with self._lock:
            if not self.is_closed:
                self._send(self.session.seal(payload))

    def greet(self) -> None:
        """Send what the handshake has to say."""
        with self._lock:
            outgoing, self.session.outgoing = self.session.outgoing, bytearray()
            if outgoing and not self.is_closed:
                self._send(outgoing)

    def _send(self, frame: bytes | bytearray) -> None:
        """Send now, as far as the socket takes it; the rest is left to `drain`. With the lock."""
        self.said_at = time.monotonic()
        sent = 0
        if not self._backlog:
            try:
                sent = self.sock.send(frame)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                log.debug("voter link to %s lost: %s", self.where, error)
                self.is_closed = True
                self._run_on_loop(self.scope.cancel)
                return
            if sent == len(frame):
                return
        rest = memoryview(frame)[sent:]
        self._backlog.append(rest)
        self.backlog_bytes += len(rest)
        self._run_on_loop(self._wake_drain)
        if self.backlog_bytes > BACKLOG_BYTES_MAX:
            log.warning("voter %s takes nothing; its link is made anew", self.where)
            self.is_closed = True
            self._run_on_loop(self.scope.cancel)

    def _wake_drain(self) -> None:
        self._backlog_grew.set()

    async def drain(self) -> None:
        """Write the backlog out as the peer takes it."""
        while not self.is_closed:
            await self._backlog_grew.wait()
            self._backlog_grew = trio.Event()
            while self._backlog and not self.is_closed:
                try:
                    await trio.lowlevel.wait_writable(self.sock)
                except trio.ClosedResourceError:
                    return
                with self._lock:
                    if not self._write_backlog():
                        return

    def _write_backlog(self) -> bool:
        """Write once. False where the link is lost."""
        piece = self._backlog[0]
        try:
            sent = self.sock.send(piece)
        except BlockingIOError:
            return True
        except OSError as error:
            log.debug("voter link to %s lost: %s", self.where, error)
            self.close()
            return False
        self.backlog_bytes -= sent
        if sent < len(piece):
            self._backlog[0] = piece[sent:]
        else:
            self._backlog.popleft()
        return True

    async def receive(self) -> bytes:
        """The next bytes; none at the end."""
        while True:
            try:
                return self.sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.sock)

    def has_ended(self) -> bool:
        """Whether the peer has closed it, which its task may not have seen yet."""
        try:
            return self.is_closed or not self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """End it; its task cleans up."""
        self.is_closed = True
        self.scope.cancel()

    def release(self) -> None:
        """Let go of the socket, which nobody uses from now on."""
        with self._lock:
            self.is_closed = True
            trio.lowlevel.notify_closing(self.sock)
            self.sock.close()


class Peer:
    """Another voter: where it is, and what is known of it now."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.where = f"{node_id} at {host}:{port}"
        self.link: Link | None = None
        self.state = LinkState.SILENT
        self.is_found = True
        self.link_ended = trio.Event()


class VoterLinks:
    """All links of this voter. It is the quorum's VoterNetwork and takes over connections from the controller listener."""

    def __init__(
        self,
        quorum: SyncObjQuorum,
        own: Claims,
        voters: Mapping[int, tuple[str, int]],
        identity: VoterIdentity,
        key: bytes,
        nursery: trio.Nursery,
    ) -> None:
        self.quorum = quorum
        self.identity = identity
        self._own = own
        self._key = key
        self._nursery = nursery
        self._peers = {node: Peer(node, *place) for node, place in sorted(voters.items()) if node != own.node_id}
        self._heard: set[int] = set()
        self._met_history = False
        self._has_caught_up = False
        # Told of each link's descriptor, so that a loop that is busy otherwise looks at it in time.
        self.watch: Callable[[int], None] = _no_loop_is_busy
        self._is_open = False
        self._strangers = 0
        self._refusals: dict[tuple[str, Refusal], float] = {}
        self._token = trio.lowlevel.current_trio_token()

    # What the quorum asks for.

    def opened(self) -> None:
        """The journal is there, so the others may know of us."""
        self._is_open = True
        self.quorum.become(self.identity.standing)
        for peer in self._peers.values():
            self._nursery.start_soon(self._keep, peer)
        self._nursery.start_soon(self._watch)

    def closed(self) -> None:
        """See VoterNetwork."""
        self._is_open = False
        for peer in self._peers.values():
            if peer.link is not None:
                peer.link.close()

    def send(self, node_id: int, payload: bytes) -> None:
        """See VoterNetwork."""
        link = self._peers[node_id].link
        if link is not None:
            link.send(payload)

    def backlog_bytes(self, node_id: int) -> int:
        """See VoterNetwork."""
        link = self._peers[node_id].link
        return 0 if link is None else link.backlog_bytes

    def link_state(self, node_id: int) -> LinkState:
        """See VoterNetwork."""
        return self._peers[node_id].state

    def caught_up(self) -> None:
        """See VoterNetwork."""
        if not self._has_caught_up:
            self._has_caught_up = True
            self._check_standing()

    # What the controller listener asks for.

    def opens(self, frame: memoryview) -> bool:
        """Whether this first frame of a connection, without its length, opens a link."""
        return frame[:4] == MAGIC

    def accept(self, sock: socket.socket, received: bytes) -> None:
        """Take the connection over, with the bytes that have come already."""
        if self._strangers >= STRANGERS_MAX or not self._is_open:
            sock.close()
            return
        try:
            host, port = sock.getpeername()[:2]
        except OSError as error:
            log.debug("a voter is gone again: %s", error)
            sock.close()
            return
        self._nursery.start_soon(self._answer, sock, received, f"{host.removeprefix('::ffff:')}:{port}")

    async def _answer(self, sock: socket.socket, received: bytes, where: str) -> None:
        session = Session(self._own_now, self._key, os.urandom(NONCE_BYTES), self._judge)
        await self._serve(Link(sock, session, where, self._run_on_loop), received)

    def _run_on_loop(self, callback: Callable[[], None]) -> None:
        with suppress(trio.RunFinishedError):  # The loop has ended, and its links with it.
            self._token.run_sync_soon(callback)

    # Calling.

    async def _keep(self, peer: Peer) -> None:
        """See that there is a link, until this voter leaves."""
        pause_s = RETRY_MIN_S
        while self._is_open:
            began = trio.current_time()
            if peer.link is not None:
                await peer.link_ended.wait()
            else:
                await self._call(peer)
            # One that broke after a while is made anew at once; one that never lasts, as with a peer that we do not understand, now and then.
            pause_s = RETRY_MIN_S if trio.current_time() - began > LASTING_S else min(2 * pause_s, RETRY_MAX_S)
            await trio.sleep(pause_s)

    async def _call(self, peer: Peer) -> None:
        """See whether the peer answers, and where we are the one to call make a link, which lasts as long as it lasts."""
        sock = await self._connect(peer)
        if sock is None:
            return
        if peer.link is not None or self._own.node_id < peer.node_id:
            sock.close()  # It is there, and will call us.
            return
        session = Session(self._own_now, self._key, os.urandom(NONCE_BYTES), self._judge, peer.node_id)
        await self._serve(Link(sock, session, peer.where, self._run_on_loop), b"")

    async def _connect(self, peer: Peer) -> socket.socket | None:
        """A connection to its listener, or None; either way it is known afterwards whether anybody is there."""
        refused = False
        with trio.move_on_after(CONNECT_S):
            try:
                places = await trio.socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
                peer.is_found = True
            except OSError as error:
                if peer.is_found:
                    log.warning("cannot find voter %s: %s", peer.where, error)
                peer.is_found = False
                places = []
            for family, _, _, _, address in places:
                sock = socket.socket(family, socket.SOCK_STREAM)
                try:
                    await _connect(sock, address)
                except OSError as error:
                    sock.close()
                    refused = refused or error.errno == errno.ECONNREFUSED
                except BaseException:
                    sock.close()
                    raise
                else:
                    return sock
        if peer.link is None:
            peer.state = LinkState.REFUSED if refused else LinkState.SILENT
            if refused:
                self.quorum.link_refused(peer.node_id)
        return None

    # One connection.

    async def _serve(self, link: Link, received: bytes) -> None:
        """Shake hands, then pass on what comes until the end."""
        peer: Peer | None = None
        self.watch(link.sock.fileno())
        try:
            with link.scope:
                payloads = await self._greet(link, received)
                if payloads is None or link.session.peer is None:
                    return
                peer = self._peers[link.session.peer.node_id]
                self._begin(link, peer)
                await self._pass_on(link, peer, payloads)
        except RefusedError as error:
            self._note_refusal(link, error)
        except ProtocolError as error:
            log.warning("closing the voter link to %s: %s", link.where, error)
        except OSError as error:
            log.debug("voter link to %s lost: %s", link.where, error)
        finally:
            link.release()
            if peer is not None:
                self._end(link, peer)

    async def _greet(self, link: Link, data: bytes) -> list[bytes] | None:
        """The handshake. Returns what the peer has said right behind it, or None where it hasn't come to an end."""
        session = link.session
        self._strangers += 1
        try:
            with trio.move_on_after(HANDSHAKE_S):
                while True:
                    try:
                        payloads = session.feed(data)
                    finally:
                        link.greet()
                    if session.established:
                        return payloads
                    data = await link.receive()
                    if not data:
                        return None
            return None
        finally:
            self._strangers -= 1

    async def _pass_on(self, link: Link, peer: Peer, payloads: list[bytes]) -> None:
        self._nursery.start_soon(self._drain, link)
        while True:
            link.heard_at = time.monotonic()
            for payload in payloads:
                if payload:
                    self.quorum.receive(peer.node_id, payload)
            data = await link.receive()
            if not data:
                return
            payloads = link.session.feed(data)

    async def _drain(self, link: Link) -> None:
        with link.scope_of_drain:
            await link.drain()

    def _begin(self, link: Link, peer: Peer) -> None:
        """The handshake is over: from now on this is the link to that voter."""
        claims = link.session.peer
        assert claims is not None
        self.identity.note(claims)
        if peer.link is not None:
            peer.link.close()
            self._end(peer.link, peer)
        peer.link = link
        peer.link_ended = trio.Event()
        peer.state = LinkState.CONNECTED
        link.where = peer.where
        log.info("voter %s is connected", peer.where)
        if claims.voters != self._own.voters:
            log.warning("voter %s has other addresses: %s, here %s", peer.where, claims.voters, self._own.voters)
        if self.identity.standing.counts and not link.session.own.standing.counts:
            self.send(peer.node_id, voter_messages.MEMBER_MESSAGE)
        self.quorum.link_up(peer.node_id, claims.standing.counts)
        self._heard.add(peer.node_id)
        self._met_history = self._met_history or claims.has_history
        self._check_standing()

    def _end(self, link: Link, peer: Peer) -> None:
        link.scope_of_drain.cancel()
        if peer.link is link:
            log.info("the connection to voter %s has ended", peer.where)
            peer.link = None
            peer.state = LinkState.SILENT
            peer.link_ended.set()
            self.quorum.link_down(peer.node_id)

    async def _watch(self) -> None:
        """Say something on links that are quiet, and give up those on which nothing is heard."""
        looked_at = time.monotonic()
        while True:
            await trio.sleep(PING_S)
            now = time.monotonic()
            was_away = (
                now - looked_at > SILENT_S / 2
            )  # This process stood still; what has come meanwhile is not read yet.
            looked_at = now
            for peer in self._peers.values():
                link = peer.link
                if link is None:
                    continue
                if was_away:
                    link.heard_at = now
                if now - link.heard_at > SILENT_S:
                    log.warning("nothing was heard from voter %s for %.0f s", peer.where, SILENT_S)
                    link.close()
                elif now - link.said_at > PING_S / 2:
                    link.send(b"")

    # Who counts, and who is refused.

    def _judge(self, claims: Claims) -> Refusal | None:
        """Asked by a session once its peer has proven to know the secret."""
        link = self._peers[claims.node_id].link
        if link is not None:
            current = link.session.peer
            assert current is not None
            if current.incarnation != claims.incarnation and not link.has_ended():
                return Refusal.TWICE
        return self.identity.judge(claims)

    def _check_standing(self) -> None:
        """Count for more as soon as that is safe: see raft/voter_identity.py."""
        standing = self.identity.standing
        if standing.counts:
            lags = not self._has_caught_up and self._met_history and not self.quorum.has_history
            if standing is Standing.MEMBER and lags:
                self._become(Standing.JOINING)
            elif standing is Standing.JOINING and self._has_caught_up:
                self._become(Standing.MEMBER)
        elif len(self._heard) == len(self._peers) and (standing is Standing.NEWCOMER or self._has_caught_up):
            self._become(Standing.JOINING if self._met_history and not self._has_caught_up else Standing.MEMBER)

    def _become(self, standing: Standing) -> None:
        """Written down first, then told to the others, and then it is true: a vote must not come before the word that it counts."""
        counted = self.identity.standing.counts
        self.identity.become(standing)
        log.info(STANDINGS[standing])
        if not counted:
            for node_id in self._peers:
                self.send(node_id, voter_messages.MEMBER_MESSAGE)
        self.quorum.become(standing)

    @property
    def _own_now(self) -> Claims:
        return self._own._replace(standing=self.identity.standing, has_history=self.quorum.has_history)

    def _note_refusal(self, link: Link, error: RefusedError) -> None:
        now = trio.current_time()
        key = (link.where.partition(":")[0], error.refusal)
        if now - self._refusals.get(key, -REFUSAL_LOGGED_EACH_S) < REFUSAL_LOGGED_EACH_S:
            return
        self._refusals[key] = now
        who = f"the voter at {link.where}" if error.peer is None else f"voter {error.peer.node_id} ({link.where})"
        reason = explain(error.refusal, self._own, error.peer, told=error.told)
        log.error("%s: %s", f"{who} refuses this node" if error.told else f"{who} is refused", reason)


def link_voters(
    quorum: SyncObjQuorum, config: BrokerConfig, cluster_id: str, incarnation: bytes, nursery: trio.Nursery
) -> VoterLinks:
    """Give a quorum of several its links. They come up once the quorum has been started."""
    identity = VoterIdentity(quorum.directory)
    voters = config.controller_quorum_voters
    own = Claims(
        config.node_id,
        cluster_id,
        directory_id(config.metadata_log_dir, cluster_id, config.node_id),
        incarnation,
        voters_text(voters),
        identity.standing,
        identity.journal_is_new,
    )
    if identity.standing is not Standing.MEMBER:
        log.info(STANDINGS[identity.standing])
    secret = config.kafkapy_quorum_secret
    exposed = [str(one) for one in config.controller_listeners if not _is_loopback(one.host)]
    if not secret and exposed:
        log.warning(
            "kafkapy.quorum.secret is not set, and %s can be reached from other hosts: who knows the cluster id can pose as a voter. "
            "Give all controllers the same secret",
            ",".join(exposed),
        )
    links = VoterLinks(quorum, own, voters, identity, link_key(secret, cluster_id), nursery)
    quorum.join(links, is_member=False)
    return links


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _connect(sock: socket.socket, address: Any) -> None:
    """Connect without blocking; OSError where that fails."""
    sock.setblocking(False)
    number = sock.connect_ex(address)
    if number == errno.EINPROGRESS:
        await trio.lowlevel.wait_writable(sock)
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))


def _no_loop_is_busy(fd: int) -> None:
    """A loop that does nothing but wait for these links."""
