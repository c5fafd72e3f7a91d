"""The leader changes the ISR: what is refused with which code, and what a change brings along."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.alter_partition import alter_partition
from kafkapy.raft.image import MetadataImage, PartitionImage
from kafkapy.raft.leadership import RECOVERING
from kafkapy.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartition,
    RequestTopic,
    ResponsePartition,
)
from kafkapy.wire.metadata_records import BrokerRegistrationChangeRecord
from tests.raft.clusters import TOPIC_ID, cluster, partitions_of
from tests.raft.worlds import CONFIG, replay

P = PartitionImage((1, 2, 3), (1, 2), 1, 5, 7)


def ask(
    image: MetadataImage, *isr: int, broker_id: int = 1, broker_epoch: int | None = None, **fields: Any
) -> tuple[MetadataImage, ResponsePartition]:
    """The leader's wish for partition 0, the image afterwards and the answer."""
    epochs = fields.pop("epochs", {})
    wanted = {"partition_index": 0, "leader_epoch": 5, "partition_epoch": 7, **fields}
    if "new_isr" not in wanted:
        wanted["new_isr_with_epochs"] = [
            BrokerState(broker_id=one, broker_epoch=epochs.get(one, 10 * one)) for one in isr
        ]
    topics = [RequestTopic(topic_id=TOPIC_ID, partitions=[RequestPartition(**wanted)])]
    epoch = 10 * broker_id if broker_epoch is None else broker_epoch
    decision = alter_partition(
        image, AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=topics), CONFIG
    )
    (answer,) = decision.response.topics[0].partitions
    return replay(image, decision.records) if decision.records else image, answer


def test_a_follower_joins_and_leaves() -> None:
    """The answer tells the partition as it is then, and the leader epoch stays."""
    image, answer = ask(cluster(P), 1, 2, 3)
    assert (answer.error_code, answer.isr, answer.leader_id, answer.leader_epoch) == (0, [1, 2, 3], 1, 5)
    assert answer.partition_epoch == 8
    image, answer = ask(image, 1, partition_epoch=8)
    assert (answer.error_code, answer.isr, answer.leader_epoch, answer.partition_epoch) == (0, [1], 5, 9)
    assert partitions_of(image)[0].isr == (1,)


def test_what_is_so_already_is_not_written() -> None:
    """The answer is the state, and there is no record."""
    image = cluster(P)
    after, answer = ask(image, 1, 2)
    assert after is image
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2], 7)


def test_version_2_tells_no_epochs() -> None:
    """Members without their broker epochs are taken as they are."""
    _, answer = ask(cluster(P), new_isr=[1, 2, 3])
    assert (answer.error_code, answer.isr) == (0, [1, 2, 3])


def test_who_leaves_a_small_isr_is_eligible() -> None:
    """And not any longer when the ISR has grown again."""
    image, _ = ask(cluster(P, min_insync_replicas=2), 1)
    assert partitions_of(image)[0].eligible_leader_replicas == (2,)
    image, _ = ask(image, 1, 3, partition_epoch=8)
    assert partitions_of(image)[0].eligible_leader_replicas == ()


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ((1, 2, 3), {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        ((1, 2, 3), {"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ((1, 2, 3), {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2, 3), {"broker_id": 2}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 3), {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 2}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 3), {"epochs": {3: 29}}, ErrorCode.INELIGIBLE_REPLICA),
        ((1, 2, 3), {"epochs": {3: -1}}, ErrorCode.NONE),
        ((1, 2, 3), {"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_refused(isr: tuple[int, ...], fields: dict[str, Any], code: ErrorCode) -> None:
    """Each reason with its code, and nothing is written."""
    image = cluster(P)
    after, answer = ask(image, *isr, **fields)
    assert answer.error_code == code
    assert (after is image) == (code != ErrorCode.NONE)


def test_the_dead_and_the_dying_don_t_join() -> None:
    """A fenced broker, and one that is shutting down."""
    assert ask(cluster(P, fenced=(3,)), 1, 2, 3)[1].error_code == ErrorCode.INELIGIBLE_REPLICA
    going = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=30, in_controlled_shutdown=1)
    assert ask(replay(cluster(P), [going]), 1, 2, 3)[1].error_code == ErrorCode.INELIGIBLE_REPLICA


def test_recovery_ends() -> None:
    """A leader that was elected uncleanly is alone until it says that it has recovered."""
    recovering = P._replace(isr=(1,), leader_recovery_state=RECOVERING)
    assert ask(cluster(recovering), 1, 2, leader_recovery_state=1)[1].error_code == ErrorCode.INVALID_REQUEST
    assert ask(cluster(recovering), 1, leader_recovery_state=1)[1].leader_recovery_state == RECOVERING
    image, answer = ask(cluster(recovering), 1, 2)
    assert (answer.error_code, answer.leader_recovery_state, answer.isr) == (0, 0, [1, 2])
    assert partitions_of(image)[0].leader_recovery_state == 0


def test_an_old_process_is_not_heard() -> None:
    """The whole request is refused."""
    for broker_id, epoch in ((1, 9), (77, 770)):
        with pytest.raises(KafkaError) as caught:
            ask(cluster(P), 1, 2, 3, broker_id=broker_id, broker_epoch=epoch)
        assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_more_than_one_decision_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is to be asked for again."""
    monkeypatch.setattr("kafkapy.raft.alter_partition.DECISION_RECORDS_MAX", 3)
    wanted = [
        RequestPartition(
            partition_index=number, leader_epoch=5, partition_epoch=7, new_isr_with_epochs=[BrokerState(broker_id=1)]
        )
        for number in range(5)
    ]
    topics = [RequestTopic(topic_id=TOPIC_ID, partitions=wanted)]
    request = AlterPartitionRequest(broker_id=1, broker_epoch=10, topics=topics)
    decision = alter_partition(cluster(*[P] * 5), request, CONFIG)
    codes = [one.error_code for one in decision.response.topics[0].partitions]
    assert codes == [0] * 3 + [ErrorCode.OPERATION_NOT_ATTEMPTED] * 2
    assert len(decision.records) == 3


def test_unknown_topics_and_repetitions() -> None:
    """An id that isn't there; and of two wishes for the same partition the second."""
    wanted = RequestPartition(
        partition_index=0, leader_epoch=5, partition_epoch=7, new_isr_with_epochs=[BrokerState(broker_id=1)]
    )
    topics = [RequestTopic(topic_id=one, partitions=[wanted, wanted]) for one in (bytes(16), TOPIC_ID)]
    request = AlterPartitionRequest(broker_id=1, broker_epoch=10, topics=topics)
    decision = alter_partition(cluster(P), request, CONFIG)
    codes = [[one.error_code for one in topic.partitions] for topic in decision.response.topics]
    assert codes == [[ErrorCode.UNKNOWN_TOPIC_ID] * 2, [0, ErrorCode.INVALID_UPDATE_VERSION]]
    assert len(decision.records) == 1
