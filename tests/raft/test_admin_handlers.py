"""The handlers of metadata changes: they answer when the change is committed, and say why when it is not."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
    init_producer_id,
)
from kafkapy.handlers.wait import Wait
from kafkapy.raft.producer_ids import BLOCK_SIZE, LOW_MARK, ProducerIds, allocate_producer_ids
from kafkapy.raft.quorum import Outcome
from kafkapy.wire.messages import alter_configs as old_configs
from kafkapy.wire.messages import incremental_alter_configs as configs
from kafkapy.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from tests.raft.memory_quorum import MemoryQuorum
from tests.raft.support import RunningNode

NOW_MS = 1_000_000


class Admin:
    """A broker as far as these handlers see it, on a quorum that commits when told."""

    def __init__(self, tmp_path: Path, **properties: str) -> None:
        folder = tmp_path / "__cluster_metadata-0"
        folder.mkdir()
        self.quorum = MemoryQuorum()
        self.running = RunningNode(str(folder), self.quorum).start()
        self.quorum.commit()
        self.running.config = BrokerConfig({key.replace("_", "."): value for key, value in properties.items()})
        self.blocks_wanted = 0
        self.producer_ids = ProducerIds(self._want_block)

    def _want_block(self) -> None:
        self.blocks_wanted += 1

    def ask(self, handler: Any, request: Any, api_version: int = 0) -> Any:
        broker = SimpleNamespace(
            config=self.running.config, controller=self.running.controller, producer_ids=self.producer_ids
        )
        context = SimpleNamespace(broker=broker, api_version=api_version, now_ms=NOW_MS)
        return handler.handle(context, request)

    def create(self, name: str) -> Any:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        return self.ask(create_topics, CreateTopicsRequest(topics=[topic], timeout_ms=5000))


def test_an_answer_leaves_when_the_change_is_committed(tmp_path: Path) -> None:
    """Not before, and then the topic is in the image that everybody reads."""
    admin = Admin(tmp_path)
    waiting = admin.create("a")
    assert isinstance(waiting, Wait)
    assert waiting.deadline_ms == NOW_MS + 5000
    assert waiting.again(False) is None
    assert admin.running.node.image.topics.get("a") is None
    admin.quorum.commit()
    assert waiting.keys[0] in admin.running.woken
    assert waiting.again(False).topics[0].error_code == 0
    assert admin.running.node.image.topics.get("a") is not None


def test_a_refusal_waits_for_what_it_rests_on(tmp_path: Path) -> None:
    """That a topic exists is true only when the decision that created it is committed; afterwards it is said at once."""
    admin = Admin(tmp_path)
    admin.create("a")
    second = admin.create("a")
    assert isinstance(second, Wait)
    admin.quorum.commit()
    assert second.again(False).topics[0].error_code == 36
    assert admin.create("a").topics[0].error_code == 36


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.UNKNOWN, 7), (Outcome.NOT_CONTROLLER, 41)])
def test_a_lost_leadership_is_told(tmp_path: Path, outcome: Outcome, code: int) -> None:
    """What was in flight has an unknown end; the next request hears that this is not the controller."""
    admin = Admin(tmp_path)
    waiting = admin.create("a")
    admin.quorum.resign(outcome)
    answer = waiting.again(False)
    assert [topic.error_code for topic in answer.topics] == [code]
    assert admin.create("b").topics[0].error_code == 41
    assert admin.running.controller.image == admin.running.node.image


def test_time_runs_out(tmp_path: Path) -> None:
    """After the deadline there is an answer, whatever becomes of the change."""
    assert Admin(tmp_path).create("a").again(True).topics[0].error_code == 7


def test_the_speculative_image_starts_anew_with_an_epoch(tmp_path: Path) -> None:
    """What was lost with the leadership can be created again."""
    admin = Admin(tmp_path)
    admin.create("a")
    admin.quorum.resign()
    admin.quorum.elect(timestamp_ms=5)
    again = admin.create("a")
    admin.quorum.commit()
    assert again.again(False).topics[0].error_code == 0
    assert admin.running.node.image == admin.running.controller.image


def test_deleting_and_growing(tmp_path: Path) -> None:
    """Both wait for the commit as creating does."""
    admin = Admin(tmp_path)
    admin.create("a")
    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)], timeout_ms=5)
    growing = admin.ask(create_partitions, grow)
    admin.quorum.commit()
    assert growing.again(False).results[0].error_code == 0
    deleting = admin.ask(delete_topics, DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=5), 6)
    admin.quorum.commit()
    assert deleting.again(False).responses[0].error_code == 0
    assert admin.running.node.image.topics.get("a") is None


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73)])
def test_deletion_can_be_forbidden(tmp_path: Path, version: int, code: int) -> None:
    """Older clients don't know the code, so they get another."""
    admin = Admin(tmp_path, delete_topic_enable="false")
    answer = admin.ask(delete_topics, DeleteTopicsRequest(topic_names=["a"]), version)
    assert [one.error_code for one in answer.responses] == [code]


def test_loggers_and_the_cluster_in_one_request(tmp_path: Path) -> None:
    """A logger's level changes in this process at once; the rest goes to the controller; both are in the answer."""
    admin = Admin(tmp_path)
    logger = logging.getLogger("kafkapy.tests.admin")
    level = configs.AlterableConfig(name=logger.name, config_operation=0, value="ERROR")
    threads = configs.AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
    resources = [
        configs.AlterConfigsResource(resource_type=8, resource_name="1", configs=[level]),
        configs.AlterConfigsResource(resource_type=4, resource_name="", configs=[threads]),
    ]
    waiting = admin.ask(incremental_alter_configs, configs.IncrementalAlterConfigsRequest(resources=resources))
    admin.quorum.commit()
    assert {(one.resource_type, one.error_code) for one in waiting.again(False).responses} == {(8, 0), (4, 0)}
    assert logger.level == logging.ERROR
    assert admin.running.node.image.config(4, "")["log.cleaner.threads"] == "2"
    only = admin.ask(incremental_alter_configs, configs.IncrementalAlterConfigsRequest(resources=resources[:1]))
    assert [one.error_code for one in only.responses] == [0]
    resources[0].configs[0].value = "LOUD"
    refused = admin.ask(incremental_alter_configs, configs.IncrementalAlterConfigsRequest(resources=resources[:1]))
    assert refused.responses[0].error_code == 40


def test_replacing_configurations(tmp_path: Path) -> None:
    """The older request goes the same way."""
    admin = Admin(tmp_path)
    admin.create("a")
    value = old_configs.AlterableConfig(name="retention.ms", value="5")
    resource = old_configs.AlterConfigsResource(resource_type=2, resource_name="a", configs=[value])
    waiting = admin.ask(alter_configs, old_configs.AlterConfigsRequest(resources=[resource]))
    admin.quorum.commit()
    assert waiting.again(False).responses[0].error_code == 0
    assert admin.running.node.image.config(2, "a") == {"retention.ms": "5"}


def test_producer_ids_come_from_blocks(tmp_path: Path) -> None:
    """The first waits for a block, the next block is asked for ahead, and no id comes twice."""
    admin = Admin(tmp_path)
    request = InitProducerIdRequest(transactional_id=None)
    waiting = admin.ask(init_producer_id, request)
    assert waiting.again(False) is None
    assert waiting.again(True).error_code == 14
    assert admin.blocks_wanted == 1
    taken = []
    for block in range(3):
        decision = allocate_producer_ids(admin.running.controller.require_active(), 1, 5)
        assert decision.response == block * BLOCK_SIZE
        admin.running.controller.submit(decision, NOW_MS)
        admin.quorum.commit()
        admin.producer_ids.add_block(decision.response)
        while admin.blocks_wanted == block + 1:
            taken.append(admin.ask(init_producer_id, request).producer_id)
    assert taken == list(range(len(taken)))
    assert len(taken) % BLOCK_SIZE >= BLOCK_SIZE - LOW_MARK
    assert admin.running.node.image.next_producer_id == 3 * BLOCK_SIZE


def test_half_a_producer_is_refused(tmp_path: Path) -> None:
    """An id without an epoch, or the other way round, means nothing."""
    admin = Admin(tmp_path)
    for producer_id, epoch in ((5, -1), (-1, 0)):
        request = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
        assert admin.ask(init_producer_id, request).error_code == 42
