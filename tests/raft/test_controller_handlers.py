"""The handlers that brokers ask: they answer when what follows is committed, and say who else to ask when this isn't the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.handlers import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    elect_leaders,
    unregister_broker,
)
from kafkapy.handlers.wait import Wait
from kafkapy.raft.cluster import SUPPORTED_FEATURES
from kafkapy.raft.producer_ids import BLOCK_SIZE
from kafkapy.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkapy.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, RequestPartition, RequestTopic
from kafkapy.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kafkapy.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkapy.wire.messages.broker_registration import Listener as BrokerListener
from kafkapy.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from kafkapy.wire.messages.elect_leaders import ElectLeadersRequest
from kafkapy.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.raft.test_admin_handlers import NOW_MS, Admin
from tests.raft.test_registrations import registration

REQUESTS = {
    allocate_producer_ids: AllocateProducerIdsRequest(broker_id=1),
    alter_partition: AlterPartitionRequest(broker_id=1),
    alter_partition_reassignments: AlterPartitionReassignmentsRequest(),
    assign_replicas_to_dirs: AssignReplicasToDirsRequest(broker_id=1),
    broker_heartbeat: BrokerHeartbeatRequest(broker_id=1),
    broker_registration: registration(1),
    controller_registration: ControllerRegistrationRequest(controller_id=1),
    elect_leaders: ElectLeadersRequest(),
    unregister_broker: UnregisterBrokerRequest(broker_id=1),
}
STALE = (allocate_producer_ids, alter_partition, assign_replicas_to_dirs, broker_heartbeat)


def ask(admin: Admin, handler: Any, request: Any) -> Any:
    """The answer, with everything committed."""
    answer = admin.ask(handler, request, 1)
    if isinstance(answer, Wait):
        assert answer.again(False) is None
        admin.quorum.commit()
        answer = answer.again(False)
    return answer


@pytest.mark.parametrize("handler", REQUESTS, ids=lambda handler: handler.__name__.rpartition(".")[2])
def test_another_node_decides(tmp_path: Path, handler: Any) -> None:
    """Each of them says so."""
    admin = Admin(tmp_path)
    admin.quorum.resign()
    assert admin.ask(handler, REQUESTS[handler], 1).error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("handler", STALE, ids=lambda handler: handler.__name__.rpartition(".")[2])
def test_a_broker_of_before_is_refused(tmp_path: Path, handler: Any) -> None:
    """Its epoch isn't that of the registration."""
    assert ask(Admin(tmp_path), handler, REQUESTS[handler]).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_the_life_of_a_broker(tmp_path: Path) -> None:
    """It registers, is unfenced, keeps a second process out, fetches producer ids, and stops."""
    admin = Admin(tmp_path)
    cluster_id = admin.running.node.image.cluster_id
    elsewhere = BrokerListener(name="PLAINTEXT", host="elsewhere", port=9, security_protocol=0)
    answer = ask(admin, broker_registration, registration(2, cluster_id=cluster_id, log_dirs=[b"2" * 16]))
    epoch = answer.broker_epoch
    assert (answer.error_code, epoch) == (0, admin.running.node.image.offset)
    beat = BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=epoch - 1)
    assert ask(admin, broker_heartbeat, beat).is_fenced
    beat.current_metadata_offset = epoch
    assert not ask(admin, broker_heartbeat, beat).is_fenced
    assert not admin.running.node.image.brokers[2].fenced
    second = registration(
        2, cluster_id=cluster_id, incarnation_id=b"x" * 16, log_dirs=[b"2" * 16], listeners=[elsewhere]
    )
    assert ask(admin, broker_registration, second).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    wanted = AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch)
    first, again = (ask(admin, allocate_producer_ids, wanted) for _ in range(2))
    assert (again.producer_id_start - first.producer_id_start, first.producer_id_len) == (BLOCK_SIZE, BLOCK_SIZE)
    beat.want_shut_down = True
    assert ask(admin, broker_heartbeat, beat).should_shut_down
    admin.running.controller.sessions.forget(2)
    assert ask(admin, broker_registration, second).broker_epoch > epoch
    assert not admin.running.controller.sessions.is_alive(2, epoch, NOW_MS, 9_000)


def test_a_leader_changes_the_isr(tmp_path: Path) -> None:
    """The answer is what is committed then."""
    admin = Admin(tmp_path)
    admin.create("a")
    admin.quorum.commit()
    image = admin.running.node.image
    topic = image.topics.by_name["a"]
    wanted = RequestPartition(partition_index=0, new_isr_with_epochs=[BrokerState(broker_id=1)])
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=image.brokers[1].epoch,
        topics=[RequestTopic(topic_id=topic.id, partitions=[wanted])],
    )
    (answer,) = ask(admin, alter_partition, request).topics[0].partitions
    assert (answer.error_code, answer.leader_id, answer.isr) == (0, 1, [1])


def test_a_controller_registers(tmp_path: Path) -> None:
    """With what it can run; one that cannot run what the cluster has is refused."""
    admin = Admin(tmp_path)
    features = [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
    ]
    listeners = [Listener(name="CONTROLLER", host="there", port=9, security_protocol=0)]
    request = ControllerRegistrationRequest(controller_id=7, features=features, listeners=listeners)
    assert ask(admin, controller_registration, request).error_code == 0
    registered = admin.running.node.image.controllers[7]
    assert (registered.listeners[0].host, registered.features) == ("there", SUPPORTED_FEATURES)
    old = ControllerRegistrationRequest(controller_id=8, features=features[:1])
    answer = ask(admin, controller_registration, old)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION and "finalized version" in answer.error_message
