"""One controller as a process of its own, for tests that kill it: the real quorum, links and listener, without a broker around them.

    python -m tests.server.voter_process ID DATA_DIR ID@HOST:PORT,... [SNAPSHOT_BYTES]

It prints a line for each thing that happens, and is told what to do by lines on its standard input:

    elected EPOCH, resigned, committed NAME, failed NAME, topics QUESTION N LAST_OFFSET NAMES, leader ID
    propose NAME, count QUESTION, leader
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

import trio

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.log.checkpoints import format_uuid
from kafkapy.raft.cluster_id import derived_cluster_id
from kafkapy.raft.entries import SnapshotFile
from kafkapy.raft.quorum import Outcome
from kafkapy.raft.syncobj_quorum import SyncObjQuorum
from kafkapy.raft.topics import create_topics
from kafkapy.raft.voter_identity import note_unformatted
from kafkapy.server.log_output import set_up
from kafkapy.server.voter_links import link_voters
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.raft.support import RunningNode


class VoterProcess:
    """What the module's docstring says."""

    def __init__(self, node_id: int, data_dir: str, voters: str, snapshot_bytes: int) -> None:
        places = dict(voter.split("@") for voter in voters.split(","))
        self.config = BrokerConfig(
            {
                "process.roles": "controller",
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://{places[str(node_id)]}",
                "log.dirs": data_dir,
            }
        )
        self.snapshot_bytes = snapshot_bytes
        self.waits: dict[Any, str] = {}

    async def run(self) -> None:
        """Until it is killed, or its input ends."""
        config = self.config
        folder = f"{config.metadata_log_dir}/__cluster_metadata-0"
        os.makedirs(folder, exist_ok=True)
        note_unformatted(config.metadata_log_dir)
        cluster_id = format_uuid(derived_cluster_id(config.controller_quorum_voters.values()))
        listener = socket.create_server(config.controller_quorum_voters[config.node_id], backlog=100)
        listener.setblocking(False)
        async with trio.open_nursery() as nursery:
            others = set(config.controller_quorum_voters) - {config.node_id}
            quorum = SyncObjQuorum(folder, config.node_id, others, snapshot_bytes=self.snapshot_bytes)
            links = link_voters(quorum, config, cluster_id, os.urandom(16), nursery)
            token = trio.lowlevel.current_trio_token()
            running = RunningNode(folder, quorum, None, config.node_id, tuple(config.controller_quorum_voters))
            self.running = running
            running.controller.new_uuid = lambda: os.urandom(16)
            running.loop.run_on_loop = lambda callback: token.run_sync_soon(self._run, callback)  # type: ignore[method-assign]
            running.start()
            nursery.start_soon(self._accept, listener, links)
            await self._obey()
            nursery.cancel_scope.cancel()
        running.node.stop()

    def _run(self, callback: Any) -> None:
        running = self.running
        before = running.controller.epoch
        callback()
        if running.controller.epoch != before:
            now = running.controller.epoch
            self.say("resigned" if now is None else f"elected {now}")
        for ticket in [ticket for ticket in self.waits if ticket.outcome is not Outcome.PENDING]:
            name = self.waits.pop(ticket)
            self.say(f"committed {name}" if ticket.outcome is Outcome.COMMITTED else f"failed {name}")
        if running.failures:
            raise running.failures[0]

    async def _accept(self, listener: socket.socket, links: Any) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            sock, _ = listener.accept()
            sock.setblocking(False)
            links.accept(sock, b"")

    async def _obey(self) -> None:
        os.set_blocking(0, False)
        buffer = b""
        while True:
            await trio.lowlevel.wait_readable(0)
            data = os.read(0, 65536)
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._do(*line.decode().split())

    def _do(self, verb: str, name: str = "") -> None:
        running = self.running
        image = running.node.image
        if verb == "count":
            names = ",".join(sorted(image.topics.by_name))
            self.say(f"topics {name} {len(image.topics)} {image.offset} {names}")
        elif verb == "leader":
            self.say(f"leader {running.node.quorum.leader_id}")
        elif not running.controller.is_active:
            self.say(f"failed {name}")
        else:
            request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
            controller = running.controller
            decision = create_topics(controller.require_active(), request, running.config, controller.new_uuid)
            ticket = controller.submit(decision, running.now_ms)
            if ticket is None:
                self.say(f"failed {name}")
            else:
                self.waits[ticket] = name

    def say(self, text: str) -> None:
        """A line for whoever has started this process."""
        os.write(1, text.encode() + b"\n")


def die_in_snapshot(number: int) -> None:
    """Kill this process when its so-many-th snapshot stands under its name and the journal has not been trimmed yet."""
    write = SnapshotFile.write
    made = 0

    def write_and_die(snapshot: SnapshotFile, path: str) -> None:
        nonlocal made
        write(snapshot, path)
        made += 1
        if made == number:
            os.kill(os.getpid(), signal.SIGKILL)

    SnapshotFile.write = write_and_die  # type: ignore[method-assign]


if __name__ == "__main__":
    dies = int(os.environ.get("VOTER_DIES_IN_SNAPSHOT", "0"))
    if dies:
        die_in_snapshot(dies)
    set_up("text", os.environ.get("VOTER_LOG", "info"))
    trio.run(VoterProcess(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])).run)
