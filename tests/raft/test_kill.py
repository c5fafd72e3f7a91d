"""kill -9, again and again: what was acknowledged is there."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from tests.raft.support import RunningNode

ROUNDS = 8

# Proposes topics as fast as they are acknowledged and prints each name when it is; snapshots come often.
_PROPOSER = """
import sys
from kafkapy.raft.quorum import Outcome
from kafkapy.raft.syncobj_quorum import SyncObjQuorum
from kafkapy.raft.topics import create_topics
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.raft.support import RunningNode
folder, first = sys.argv[1], int(sys.argv[2])
running = RunningNode(folder, SyncObjQuorum(folder, 1, snapshot_bytes=4000))
running.controller.new_uuid = lambda: first.to_bytes(4, "big") + number.to_bytes(12, "big")
running.start().wait_ready()
for number in range(1_000_000):
    name = f"topic-{first}-{number}"
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)])
    controller = running.controller
    decision = create_topics(controller.require_active(), request, running.config, controller.new_uuid)
    ticket = controller.submit(decision, running.now_ms)
    running.loop.run_until(lambda: ticket.outcome is not Outcome.PENDING)
    assert ticket.outcome is Outcome.COMMITTED and name in running.node.image.topics.by_name
    print(name, flush=True)
"""


def test_no_acknowledged_change_is_lost(tmp_path: Path) -> None:
    """Killed at any moment, also between snapshot and trim, a node comes back with every topic that it had acknowledged."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    dice = random.Random(7)
    acknowledged: set[str] = set()
    for round_number in range(ROUNDS):
        command = [sys.executable, "-c", _PROPOSER, str(folder), str(round_number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(dice.randrange(1, 150)):
                line = process.stdout.readline()
                assert line, "the proposer has ended by itself"
                acknowledged.add(line.strip())
            process.kill()
            # What it had printed before it was killed was acknowledged as well; the last line may be cut.
            acknowledged.update(
                line.strip() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")
            )
    from kafkapy.raft.syncobj_quorum import SyncObjQuorum

    running = RunningNode(str(folder), SyncObjQuorum(str(folder), 1)).start().wait_ready()
    topics = running.node.image.topics
    missing = {name for name in acknowledged if topics.get(name) is None}
    assert not missing
    assert all(len(topic.partitions) == 2 for topic in topics.by_name.values())
    assert len(topics) <= len(acknowledged) + ROUNDS
    assert list(folder.glob("*.checkpoint"))
    running.node.stop()
