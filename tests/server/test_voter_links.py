"""Controllers over real sockets in one process: they find each other, refuse who doesn't belong to them, and notice who is gone."""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.log.checkpoints import format_uuid
from kafkapy.raft.cluster_id import derived_cluster_id
from kafkapy.raft.quorum import Outcome
from kafkapy.raft.syncobj_quorum import LinkState, SyncObjQuorum
from kafkapy.raft.topics import create_topics
from kafkapy.raft.voter_identity import note_unformatted
from kafkapy.raft.voter_session import Standing
from kafkapy.server import voter_links
from kafkapy.server.formatting import format_folders
from kafkapy.server.voter_links import VoterLinks, link_voters
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.raft.support import RunningNode
from tests.support.ports import free_ports


class Controller:
    """One controller: quorum, links and listener."""

    def __init__(self, root: Path, node_id: int, ports: dict[int, int], **settings: str) -> None:
        self.node_id = node_id
        self.data_dir = root / str(node_id)
        voters = ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in ports.items())
        keys = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{ports.get(node_id, 0)}",
            "log.dirs": str(self.data_dir),
        }
        self.config = BrokerConfig(keys | {key.replace("_", "."): value for key, value in settings.items()})
        self.links: VoterLinks
        self.running: RunningNode
        self._scope = trio.CancelScope()
        self._stopped = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until `stop`."""
        config = self.config
        voters = config.controller_quorum_voters
        folder = self.data_dir / "__cluster_metadata-0"
        self.data_dir.mkdir(exist_ok=True)
        note_unformatted(str(self.data_dir))
        folder.mkdir(exist_ok=True)
        listener = socket.create_server(("127.0.0.1", config.listeners[0].port))
        listener.setblocking(False)
        token = trio.lowlevel.current_trio_token()
        with listener, self._scope:
            async with trio.open_nursery() as nursery:
                quorum = SyncObjQuorum(str(folder), self.node_id, set(voters) - {self.node_id}, snapshot_bytes=4000)
                cluster_id = format_uuid(derived_cluster_id(voters.values()))
                self.links = link_voters(quorum, config, cluster_id, os.urandom(16), nursery)
                self.running = RunningNode(str(folder), quorum, None, self.node_id, tuple(voters))
                self.running.controller.new_uuid = lambda: os.urandom(16)
                self.running.loop.run_on_loop = token.run_sync_soon  # type: ignore[method-assign]
                self.running.start()
                task_status.started()
                while True:
                    await trio.lowlevel.wait_readable(listener)
                    sock, _ = listener.accept()
                    sock.setblocking(False)
                    self.links.accept(sock, b"")
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self.running.node.stop)
        assert not self.running.failures
        self._stopped.set()

    async def stop(self) -> None:
        """As a process ends."""
        self._scope.cancel()
        await self._stopped.wait()

    @property
    def quorum(self) -> SyncObjQuorum:
        return self.running.node.quorum  # type: ignore[return-value]

    @property
    def topics(self) -> set[str]:
        return set(self.running.node.image.topics.by_name)

    async def create(self, name: str) -> None:
        """Until it is committed."""
        controller = self.running.controller
        request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
        decision = create_topics(controller.require_active(), request, self.running.config, controller.new_uuid)
        ticket = controller.submit(decision, 1)
        assert ticket is not None, decision.response
        await until(lambda: ticket.outcome is not Outcome.PENDING)
        assert ticket.outcome is Outcome.COMMITTED


class World:
    """What the tests start and stop."""

    def __init__(self, root: Path, nursery: trio.Nursery, count: int = 3) -> None:
        self.root = root
        self.ports = dict(enumerate(free_ports(count), 1))
        self.controllers: dict[int, Controller] = {}
        self._nursery = nursery

    async def start(self, *node_ids: int, root: Path | None = None, **settings: str) -> Controller:
        """Start controllers; the last one is returned."""
        for node_id in node_ids:
            controller = Controller(root or self.root, node_id, self.ports, **settings)
            await self._nursery.start(controller.run)
            self.controllers[node_id] = controller
        return controller

    async def stop(self, *node_ids: int) -> None:
        """Stop them."""
        for node_id in node_ids:
            await self.controllers.pop(node_id).stop()

    async def leader(self) -> Controller:
        """The active controller, once there is one that all others follow."""

        def found() -> list[Controller]:
            return [one for one in self.controllers.values() if one.running.controller.is_active]

        await until(lambda: len(found()) == 1)
        leader = found()[0]
        await until(lambda: all(one.quorum.leader_id == leader.node_id for one in self.controllers.values()))
        return leader


async def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    """Wait; everything here happens in threads and sockets, so there is no event to wait for."""
    with trio.fail_after(timeout_s):
        while not condition():
            await trio.sleep(0.002)


def play(tmp_path: Path, scene: Callable[[World], Awaitable[None]], count: int = 3) -> None:
    """Run a scene; whoever is left is stopped at its end."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = World(tmp_path, nursery, count)
            await scene(world)
            await world.stop(*world.controllers)

    trio.run(main)


@contextmanager
def limits(**changed: float) -> Iterator[None]:
    """Shorter times, so that a test need not wait."""
    before = {name: getattr(voter_links, name) for name in changed}
    try:
        for name, value in changed.items():
            setattr(voter_links, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(voter_links, name, value)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    """The log lines with a text in them."""
    caplog.set_level(logging.INFO)
    return lambda text: [record.getMessage() for record in caplog.records if text in record.getMessage()]


def test_three_controllers_elect_one_and_commit(tmp_path: Path) -> None:
    """From empty folders, and again after all of them have stopped."""

    async def scene(world: World) -> None:
        await world.start(1, 2, 3)
        leader = await world.leader()
        await leader.create("orders")
        await until(lambda: all(one.topics == {"orders"} for one in world.controllers.values()))
        states = {leader.quorum.link_state(other) for other in world.controllers if other != leader.node_id}
        assert states == {LinkState.CONNECTED}
        await world.stop(1, 2, 3)
        await world.start(1, 2, 3)
        assert "orders" in (await world.leader()).topics

    play(tmp_path, scene)


def test_when_the_leader_ends_another_one_follows_at_once(tmp_path: Path) -> None:
    """Its host refuses, so nobody waits for a timeout."""

    async def scene(world: World) -> None:
        await world.start(1, 2, 3)
        old = (await world.leader()).node_id
        began = trio.current_time()
        await world.stop(old)
        leader = await world.leader()
        assert trio.current_time() - began < 5.0  # about 0.1 s where nothing else runs
        await leader.create("later")
        await until(lambda: leader.quorum.link_state(old) is LinkState.REFUSED)

    play(tmp_path, scene)


def test_new_folders_wait_for_everybody(tmp_path: Path) -> None:
    """Two of three could elect, but the third might know that one of them had another disk."""

    async def scene(world: World) -> None:
        await world.start(1, 2)
        await until(lambda: world.controllers[1].quorum.link_state(2) is LinkState.CONNECTED)
        assert {one.links.identity.standing for one in world.controllers.values()} == {Standing.NEWCOMER}
        assert not any(one.quorum._elections.is_member for one in world.controllers.values())
        await world.start(3)
        await world.leader()
        assert {one.links.identity.standing for one in world.controllers.values()} == {Standing.MEMBER}

    play(tmp_path, scene)


def test_folders_formatted_on_purpose_wait_for_a_majority_only(tmp_path: Path) -> None:
    """Whoever formats says that the folder is meant to be empty."""

    async def scene(world: World) -> None:
        for node_id in (1, 2):
            format_folders(Controller(tmp_path, node_id, world.ports).config, None)
        await world.start(1, 2)
        await (await world.leader()).create("orders")

    play(tmp_path, scene)


def test_a_wiped_disk_is_refused_until_it_rejoins(tmp_path: Path, said: Callable[[str], list[str]]) -> None:
    """The wiped controller cannot elect together with one that was late; told to rejoin, it gets everything and counts again."""

    async def scene(world: World) -> None:
        await world.start(1, 2, 3)
        await (await world.leader()).create("kept")
        await until(lambda: all(one.topics == {"kept"} for one in world.controllers.values()))
        await world.stop(1, 2, 3)
        shutil.rmtree(tmp_path / "2")
        wiped = await world.start(2)
        late = await world.start(3)
        await until(lambda: bool(said("voter 3") and said("refuses this node") and said("is refused")))
        assert any("kafkapy format --rejoin" in line and "this node" in line for line in said("refuses this node"))
        assert any("kafkapy format --rejoin" in line and "node 2" in line for line in said("is refused"))
        assert not wiped.quorum._elections.is_member
        assert late.quorum.link_state(2) is not LinkState.CONNECTED
        await world.stop(2)
        await world.start(1)
        await (await world.leader()).create("more")
        format_folders(wiped.config, None, rejoin=True)
        back = await world.start(2)
        await until(lambda: back.links.identity.standing is Standing.MEMBER)
        assert back.topics == {"kept", "more"}
        await world.stop(3)
        await (await world.leader()).create("together")

    play(tmp_path, scene)


def test_one_controller_grows_to_three(tmp_path: Path) -> None:
    """Two empty voters are a majority; still it is the one with the history that is elected, and they have it before they can be."""

    async def scene(world: World) -> None:
        alone = Controller(tmp_path, 1, {1: world.ports[1]})
        async with trio.open_nursery() as nursery:
            await nursery.start(alone.run)
            await until(lambda: alone.running.controller.is_active)
            await alone.create("before")
            await alone.stop()
        await world.start(2, 3)
        await until(lambda: world.controllers[2].quorum.link_state(3) is LinkState.CONNECTED)
        await world.start(1)
        assert (await world.leader()).node_id == 1
        added = [world.controllers[2], world.controllers[3]]
        await until(lambda: {one.links.identity.standing for one in added} == {Standing.MEMBER})
        await world.stop(1)
        leader = await world.leader()
        assert leader.topics == {"before"}
        await leader.create("after")

    play(tmp_path, scene)


def test_a_lost_journal_is_refused(tmp_path: Path, said: Callable[[str], list[str]]) -> None:
    """The disk is the right one, but what it had promised is gone."""

    async def scene(world: World) -> None:
        for node_id in (1, 2, 3):
            format_folders(Controller(tmp_path, node_id, world.ports).config, None)
        await world.start(1, 2, 3)
        await world.leader()
        await world.stop(2)
        shutil.rmtree(tmp_path / "2" / "__cluster_metadata-0")
        await world.start(2)
        await until(lambda: len(said("lost its quorum journal")) >= 2)
        assert world.controllers[2].quorum.leader_id is None

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"kafkapy_quorum_secret": "another"}, "kafkapy.quorum.secret"),
        ({"controller_quorum_voters": "1@127.0.0.1:1,2@127.0.0.1:2"}, "controller.quorum.voters"),
    ],
)
def test_who_does_not_belong_is_refused_on_both_sides(
    tmp_path: Path, said: Callable[[str], list[str]], setting: dict[str, str], text: str
) -> None:
    """Both sides say what to do, and nothing is changed."""

    async def scene(world: World) -> None:
        if "controller_quorum_voters" in setting:
            setting["controller_quorum_voters"] = ",".join(
                f"{node_id}@127.0.0.1:{world.ports[node_id]}" for node_id in (1, 2)
            )
        await world.start(1)
        await world.start(2, **setting)
        await until(lambda: bool((said("is refused") and said("refuses this node")) or len(said("is refused")) > 1))
        assert all(text in line or "cluster" in line for line in (*said("is refused"), *said("refuses this node")))
        assert world.controllers[1].links.identity.known == {}
        assert world.controllers[1].quorum.link_state(2) is not LinkState.CONNECTED

    play(tmp_path, scene)


def test_two_controllers_with_one_id_do_not_both_get_in(tmp_path: Path, said: Callable[[str], list[str]]) -> None:
    """A copied folder in a second process, while the first one is connected."""

    async def scene(world: World) -> None:
        await world.start(1, 2, 3)
        leader = await world.leader()
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copytree(tmp_path / "3", copy / "3")
        twin = Controller(copy, 3, {**world.ports, 3: 0})
        twin.config = Controller(copy, 3, world.ports, listeners="CONTROLLER://127.0.0.1:0").config
        async with trio.open_nursery() as nursery:
            await nursery.start(twin.run)
            await until(lambda: bool(said("is connected already")))
            await twin.stop()
        await leader.create("undisturbed")

    play(tmp_path, scene)


def test_strangers_cost_little(tmp_path: Path, said: Callable[[str], list[str]]) -> None:
    """Garbage closes the connection, silence too after a while, and there are only so many of them."""

    async def scene(world: World) -> None:
        controller = await world.start(1)
        address = ("127.0.0.1", world.ports[1])
        await until(lambda: controller.links._is_open)
        gone = socket.socket()  # As after a reset: it has no peer any more.
        controller.links.accept(gone, b"")
        assert gone.fileno() == -1
        garbage = await trio.open_tcp_stream(*address)
        await garbage.send_all(b"\x00\x00\x00\x08KPYVgarb")
        assert await garbage.receive_some() == b""
        await until(lambda: bool(said("closing the voter link")))
        silent = [await trio.open_tcp_stream(*address) for _ in range(voter_links.STRANGERS_MAX + 1)]
        for stream in silent:
            with trio.fail_after(5):
                assert await stream.receive_some() == b""
            await stream.aclose()
        await garbage.aclose()
        await until(lambda: controller.links._strangers == 0)

    with limits(HANDSHAKE_S=0.2):
        play(tmp_path, scene)


def test_a_silent_link_is_made_anew(tmp_path: Path, said: Callable[[str], list[str]]) -> None:
    """A peer that hangs is no longer connected, and comes back when it talks again."""

    async def scene(world: World) -> None:
        await world.start(1, 2)
        one, two = world.controllers[1], world.controllers[2]
        await until(lambda: one.links._peers[2].link is not None and two.links._peers[1].link is not None)
        link, hanging = one.links._peers[2].link, two.links._peers[1].link
        assert hanging is not None
        hanging.send = lambda frame: None  # type: ignore[method-assign]
        await until(lambda: bool(said("nothing was heard from voter 2")))
        await until(lambda: one.links._peers[2].link not in (None, link))

    with limits(SILENT_S=0.2, PING_S=0.04):
        play(tmp_path, scene)


def test_a_peer_that_takes_nothing_is_given_up(tmp_path: Path, said: Callable[[str], list[str]]) -> None:
    """What waits for it is bounded; afterwards the log is sent again."""

    async def scene(world: World) -> None:
        await world.start(1, 2)
        one = world.controllers[1]
        await until(lambda: one.quorum.link_state(2) is LinkState.CONNECTED)
        link = one.links._peers[2].link
        assert link is not None

        link._backlog.append(memoryview(b""))  # As if the socket had been full.
        one.links.send(2, b"\x09" * 100)
        assert one.links.backlog_bytes(2) > 100
        one.links.send(2, b"\x09" * 2000)
        await until(lambda: bool(said("takes nothing")))
        await until(lambda: one.links._peers[2].link not in (None, link))

    with limits(BACKLOG_BYTES_MAX=1000):
        play(tmp_path, scene)
