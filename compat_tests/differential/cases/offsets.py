"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers, DescribeLogDirs: questions about partitions."""

from __future__ import annotations

from compat_tests.differential.cases import case
from compat_tests.differential.cases.fetch import filled
from compat_tests.differential.probe import Probe
from kafkapy.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkapy.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkapy.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.requests import batch, list_offsets, produce


@case
def list_offsets_every_timestamp(probe: Probe) -> None:
    probe.create_topic("o-times", 2)
    for timestamp in (10_000, 30_000, 20_000, 40_000):
        probe.quietly(produce("o-times", batch(b"a", b"b", timestamp=timestamp)), 9)
    asked = (
        -1,
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        -100,
        0,
        1,
        10_000,
        10_001,
        20_000,
        25_000,
        30_000,
        30_001,
        40_000,
        40_001,
        2**62,
    )
    for timestamp in asked:
        probe.ask_all(f"timestamp {timestamp}", lambda version, timestamp=timestamp: list_offsets("o-times", timestamp))
        probe.ask(f"committed {timestamp}", list_offsets("o-times", timestamp, isolation=1), 11)
        probe.ask(f"empty {timestamp}", list_offsets("o-times", timestamp, index=1), 11)


@case
def list_offsets_within_batches(probe: Probe) -> None:
    from kafkapy.wire.records import BatchBuilder

    probe.create_topic("o-inside", 3)
    for codec, index in ((0, 0), (1, 1), (4, 2)):
        for base in (0, 100):
            builder = BatchBuilder(codec=codec)
            for delta in (10, 40, 20, 30):
                builder.append(1000 + base + delta, None, b"v")
            probe.quietly(produce("o-inside", bytes(builder.build()), index=index), 9)
        for timestamp in (-3, 1000, 1011, 1035, 1040, 1041, 1115, 1135, 1140, 1141):
            probe.ask(f"codec {codec} timestamp {timestamp}", list_offsets("o-inside", timestamp, index=index), 11)


@case
def list_offsets_refused(probe: Probe) -> None:
    filled(probe, "o-known")
    for version in (1, 4, 11):
        probe.ask("topic", list_offsets("o-nope", -1), version)
        probe.ask("partition", list_offsets("o-known", -1, index=9), version)
        probe.ask("negative partition", list_offsets("o-known", -1, index=-1), version)
        probe.ask("invalid name", list_offsets("o known", -1), version)
        probe.ask("epoch 0", list_offsets("o-known", -1, epoch=0), version)
        probe.ask("epoch 5", list_offsets("o-known", -1, epoch=5), version)
        probe.ask("epoch -2", list_offsets("o-known", -1, epoch=-2), version)
        probe.ask("unknown topic and timestamp", list_offsets("o-nope", -77), version)
        twice = [
            ListOffsetsPartition(partition_index=0, timestamp=-1),
            ListOffsetsPartition(partition_index=0, timestamp=-2),
        ]
        probe.ask(
            "twice",
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="o-known", partitions=twice)]),
            version,
        )
        probe.ask("nothing", ListOffsetsRequest(replica_id=-1), version)
        probe.ask(
            "no partitions", ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="o-known")]), version
        )
    for replica in (-2, -3, 1, 9):
        asked = [ListOffsetsTopic(name="o-known", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
        probe.ask(f"replica {replica}", ListOffsetsRequest(replica_id=replica, topics=asked), 11)
    probe.ask("isolation 7", list_offsets("o-known", -1, isolation=7), 11)


@case
def list_offsets_after_deletion(probe: Probe) -> None:
    probe.create_topic("o-deleted")
    for timestamp in (1000, 2000, 3000):
        probe.quietly(produce("o-deleted", batch(b"a", b"b", timestamp=timestamp)), 9)
    probe.ask("delete", delete_records("o-deleted", 3), 2)
    for timestamp in (-1, -2, -3, -4, 0):
        answer = probe.quietly(list_offsets("o-deleted", timestamp), 11).topics[0].partitions[0]
        probe.note(f"timestamp {timestamp}", [answer.error_code, answer.offset, answer.leader_epoch])


def delete_records(topic: str, offset: int, index: int = 0) -> DeleteRecordsRequest:
    part = DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=1000)


@case
def delete_records_edges(probe: Probe) -> None:
    filled(probe, "d-known")
    probe.create_topic("d-compact", config={"cleanup.policy": "compact"})
    probe.create_topic("d-both", config={"cleanup.policy": "compact,delete"})
    for version in (0, 1, 2):
        probe.ask("topic", delete_records("d-nope", 1), version)
        probe.ask("partition", delete_records("d-known", 1, 9), version)
        probe.ask("offset 0", delete_records("d-known", 0), version)
        probe.ask("offset -2", delete_records("d-known", -2), version)
        probe.ask("beyond the end", delete_records("d-known", 7), version)
        probe.ask("compacted", delete_records("d-compact", 0), version)
        probe.ask("compacted and deleted", delete_records("d-both", 0), version)
    for offset in (1, 3, 2, 6, -1, 4):
        probe.ask(f"offset {offset}", delete_records("d-known", offset), 2)
    twice = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (5, 6)]
    probe.ask(
        "twice", DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="d-known", partitions=twice)], timeout_ms=1000), 2
    )
    probe.ask("nothing", DeleteRecordsRequest(timeout_ms=1000), 2)


@case
def offset_for_leader_epoch(probe: Probe) -> None:
    filled(probe, "e-known")
    probe.create_topic("e-empty")

    def request(
        topic: str, epoch: int, current: int = -1, index: int = 0, replica: int = -2
    ) -> OffsetForLeaderEpochRequest:
        part = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        return OffsetForLeaderEpochRequest(
            replica_id=replica, topics=[OffsetForLeaderTopic(topic=topic, partitions=[part])]
        )

    for version in (2, 3, 4):
        for epoch in (-1, 0, 1, 7, -2):
            probe.ask(f"epoch {epoch}", request("e-known", epoch), version)
            probe.ask(f"empty epoch {epoch}", request("e-empty", epoch), version)
        for current in (0, 1, -2):
            probe.ask(f"current {current}", request("e-known", 0, current), version)
        probe.ask("topic", request("e-nope", 0), version)
        probe.ask("partition", request("e-known", 0, index=9), version)
        probe.ask("consumer", request("e-known", 0, replica=-1), version)
        probe.ask("replica 2", request("e-known", 0, replica=2), version)


@case
def describe_producers(probe: Probe) -> None:
    probe.create_topic("dp-known", 2)
    for producer, sequence in ((7000, 0), (7001, 0), (7000, 1)):
        data = batch(b"a", producer_id=producer, producer_epoch=0, base_sequence=sequence)
        probe.quietly(produce("dp-known", data, acks=-1), 9)
    for topic, index in (("dp-known", 0), ("dp-known", 1), ("dp-known", 9), ("dp-nope", 0), ("dp nope", 0)):
        probe.ask(
            f"{topic} {index}",
            DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])]),
            0,
        )
    probe.ask("nothing", DescribeProducersRequest(), 0)


@case
def describe_log_dirs(probe: Probe) -> None:
    filled(probe, "ld-known", 2)
    known = [DescribableLogDirTopic(topic="ld-known", partitions=[0])]
    other = [
        DescribableLogDirTopic(topic="ld-nope", partitions=[0]),
        DescribableLogDirTopic(topic="ld-known", partitions=[7]),
    ]
    probe.ask_all("one", lambda version: DescribeLogDirsRequest(topics=known))
    probe.ask_all("unknown", lambda version: DescribeLogDirsRequest(topics=other))
    probe.ask_all("none", lambda version: DescribeLogDirsRequest(topics=[]))
    answer = probe.quietly(DescribeLogDirsRequest(topics=None), 4)
    sizes = {
        topic.name: sorted(one.partition_size for one in topic.partitions)
        for result in answer.results
        for topic in result.topics
    }
    probe.note("sizes", sizes["ld-known"])
