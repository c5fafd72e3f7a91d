"""A node's metadata from start to stop, wired as the shell wires it."""

from __future__ import annotations

from pathlib import Path

from kafkapy.raft.image import METADATA_VERSION
from kafkapy.raft.quorum import Outcome
from kafkapy.raft.syncobj_quorum import SyncObjQuorum
from kafkapy.raft.topics import create_topics
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.raft.memory_quorum import MemoryQuorum
from tests.raft.support import RunningNode


def _folder(tmp_path: Path) -> str:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir(exist_ok=True)
    return str(folder)


def _create(running: RunningNode, *names: str) -> object:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=n, num_partitions=3, replication_factor=1) for n in names]
    )
    controller = running.controller
    decision = create_topics(controller.require_active(), request, running.config, controller.new_uuid)
    ticket = controller.submit(decision, running.now_ms)
    assert ticket is not None
    running.loop.run_until(lambda: ticket.outcome is not Outcome.PENDING)
    assert ticket.outcome is Outcome.COMMITTED
    assert ticket in running.woken
    return decision.response


def test_a_node_on_disk_starts_decides_and_restarts(tmp_path: Path) -> None:
    """A topic that was acknowledged is there after a restart, and the new life has an epoch and a registration of its own."""
    folder = _folder(tmp_path)
    first = RunningNode(folder, SyncObjQuorum(folder, 1)).start().wait_ready()
    _create(first, "orders")
    topic = first.node.image.topics.get("orders")
    assert topic is not None
    assert [partition.leader for partition in topic.partitions] == [1, 1, 1]
    assert first.node.image == first.controller.image
    first.node.stop()

    second = RunningNode(folder, SyncObjQuorum(folder, 1)).start().wait_ready()
    assert second.node.image.topics.get("orders") == topic
    assert second.node.image.epoch == first.node.image.epoch + 1
    assert second.node.broker_epoch > first.node.broker_epoch
    assert second.node.image.features[METADATA_VERSION] == 30
    second.node.stop()


def test_after_a_crash_leaders_begin_another_epoch_before_the_broker_is_ready(tmp_path: Path) -> None:
    """Ready means that clients can be told the new epochs."""
    folder = _folder(tmp_path)
    first = RunningNode(folder, SyncObjQuorum(folder, 1)).start().wait_ready()
    _create(first, "orders")
    first.node.stop()
    second = RunningNode(folder, SyncObjQuorum(folder, 1))
    second.stopped_broker_epoch = -1
    second.start().wait_ready()
    topic = second.node.image.topics.get("orders")
    assert topic is not None
    assert [partition.leader_epoch for partition in topic.partitions] == [1, 1, 1]
    second.node.stop()


def test_decisions_pipeline_on_the_speculative_image(tmp_path: Path) -> None:
    """The second decision knows the first one's topic before anything is committed, and the committed image ends up the same."""
    quorum = MemoryQuorum()
    running = RunningNode(_folder(tmp_path), quorum).start()
    assert not running.ready
    request = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)])
    codes = []
    for _ in range(2):
        decision = create_topics(running.controller.image, request, running.config, running.controller.new_uuid)
        running.controller.submit(decision, running.now_ms)
        codes.append(decision.response.topics[0].error_code)
    assert codes == [0, 36]
    assert running.node.image.topics.get("a") is None
    quorum.commit()
    assert running.ready
    assert running.node.image == running.controller.image
