"""The image is the replay of its records, however they are cut into deltas, and its own records rebuild it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.raft.delta import _REPLAY, MetadataDelta, delta_between
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.image_records import image_records
from kafkapy.raft.metadata_batches import frame_records, read_snapshot, snapshot_batches
from kafkapy.raft.persistent_map import PersistentMap
from kafkapy.raft.quorum import SnapshotPosition
from kafkapy.raft.topics_delta import ReplayError
from kafkapy.wire import metadata_records as records
from kafkapy.wire.record_framing import decode_metadata_record
from kafkapy.wire.schema import Record
from tests.raft.worlds import CLUSTER_ID, decisions, replay, world

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_an_image_is_rebuilt_by_its_own_records(seed: int) -> None:
    """image -> records -> bytes -> records -> image changes nothing."""
    image = world(seed)
    framed = frame_records(image_records(image), image.metadata_version)
    rebuilt = replay(MetadataImage(CLUSTER_ID), [decode_metadata_record(record)[0] for record in framed])
    assert replace(rebuilt, offset=image.offset, epoch=image.epoch, timestamp_ms=image.timestamp_ms) == image


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_one_delta_or_many_make_no_difference(seed: int) -> None:
    """Starting from nothing, all records in one delta give the same image as decision by decision."""
    steps = list(decisions(seed, 30))
    everything = [record for changes, _ in steps for record in changes]
    assert replay(MetadataImage(CLUSTER_ID), everything) == steps[-1][1]


@given(SEEDS, st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_the_difference_leads_from_one_image_to_another(seed: int, count: int) -> None:
    """Publishers that follow by deltas end up at a snapshot's image, from an earlier one or a foreign one."""
    target = world(seed, 30)
    for base in (world(seed, count), world(seed + 1, count)):
        delta = delta_between(base, target)
        assert delta.apply(target.offset, target.epoch, target.timestamp_ms) == target
        gone = {topic.id for topic in base.topics.by_name.values()} - set(target.topics.names_by_id)
        assert set(delta.topics.deleted) == gone


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_snapshot_reads_back(seed: int) -> None:
    """Snapshots of equal images are equal bytes, and hold the image."""
    image = world(seed)
    position = SnapshotPosition(image.next_offset, 1, 1, 77)
    contents = [
        b"".join(snapshot_batches(image_records(copy), position, image.metadata_version))
        for copy in (image, world(seed))
    ]
    assert contents[0] == contents[1]
    found, timestamp_ms = read_snapshot(contents[0])
    assert timestamp_ms == 77
    rebuilt = replay(MetadataImage(CLUSTER_ID), found)
    assert replace(rebuilt, offset=image.offset) == image


def test_there_is_a_function_for_every_record_type() -> None:
    """A type without one would stop a node that reads it."""
    declared = {
        value
        for value in vars(records).values()
        if isinstance(value, type) and issubclass(value, Record) and value.SCHEMA.type >= 0
    }
    assert set(_REPLAY) == declared


def test_records_that_fit_nothing_are_refused() -> None:
    """To skip one would mean that two nodes no longer agree."""
    topic_id = b"t" * 16
    wrong: list[list[Record]] = [
        [records.PartitionRecord(topic_id=topic_id)],
        [records.PartitionChangeRecord(topic_id=topic_id)],
        [records.RemoveTopicRecord(topic_id=topic_id)],
        [records.TopicRecord(name="a", topic_id=topic_id), records.TopicRecord(name="a", topic_id=b"u" * 16)],
        [records.TopicRecord(name="a", topic_id=topic_id), records.PartitionRecord(topic_id=topic_id, partition_id=1)],
        [records.UnfenceBrokerRecord(id=9)],
        [records.UnregisterBrokerRecord(broker_id=9)],
    ]
    for changes in wrong:
        with pytest.raises(ReplayError):
            replay(MetadataImage(CLUSTER_ID), changes)


def test_a_topic_may_be_made_anew_within_one_delta() -> None:
    """Removed and created again under its name, it is another topic; the first one is reported as deleted, its settings are gone."""
    old, new = b"1" * 16, b"2" * 16
    base = replay(
        MetadataImage(CLUSTER_ID),
        [
            records.TopicRecord(name="a.b", topic_id=old),
            records.PartitionRecord(partition_id=0, topic_id=old, replicas=[1], isr=[1], leader=1),
            records.ConfigRecord(resource_type=2, resource_name="a.b", name="retention.ms", value="1"),
        ],
    )
    delta = MetadataDelta(base)
    delta.replay(records.RemoveTopicRecord(topic_id=old))
    delta.replay(records.TopicRecord(name="a.b", topic_id=new))
    delta.replay(records.PartitionRecord(partition_id=0, topic_id=new, replicas=[2], isr=[2], leader=2))
    image = delta.apply(9, 1, 1)
    assert set(delta.topics.deleted) == {old}
    topic = image.topics.get("a.b")
    assert topic is not None and topic.id == new and topic.partitions[0].replicas == (2,)
    assert image.topics.get_by_id(old) is None
    assert image.config(2, "a.b") == {}
    assert image.topics.collisions.get("a_b") == {"a.b"}


def test_a_new_leader_raises_both_epochs() -> None:
    """Any other change raises the partition epoch alone."""
    topic_id = b"t" * 16
    image = replay(
        MetadataImage(CLUSTER_ID),
        [
            records.TopicRecord(name="a", topic_id=topic_id),
            records.PartitionRecord(
                partition_id=0,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            ),
        ],
    )
    image = replay(image, [records.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1])])
    image = replay(image, [records.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2)])
    partition = image.topics.partition("a", 0)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr) == (2, 1, 2, (1,))


@given(st.lists(st.tuples(st.dictionaries(st.integers(0, 500), st.integers()), st.sets(st.integers(0, 500)))))
@settings(max_examples=60, deadline=None)
def test_the_persistent_map_is_a_dict_that_keeps_its_past(steps: list[tuple[dict[int, int], set[int]]]) -> None:
    """Every version stays as it was when later ones are made from it."""
    versions: list[tuple[PersistentMap[int, int], dict[int, int]]] = [(PersistentMap(), {})]
    for changes, removed in steps:
        latest, model = versions[-1]
        expected = {key: value for key, value in model.items() if key not in removed} | changes
        versions.append((latest.updated(changes, removed), expected))
    for version, model in versions:
        assert dict(version.items()) == model
        assert len(version) == len(model) == len(list(version)) == len(list(version.values()))
        assert version == PersistentMap(model)
        assert all(
            version.get(key) == model.get(key) and (key in version) == (key in model) for key in range(0, 500, 7)
        )
