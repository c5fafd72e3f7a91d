"""DescribeLogDirs against a running broker."""

from __future__ import annotations

from kafkapy.testing import Broker
from kafkapy.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


def test_partitions_without_a_record_are_shown() -> None:
    """A partition belongs to a folder, with size 0, before its first record has made its own folder there."""
    with Broker(topics={"fresh": 3}) as broker, broker.client() as client:
        for topics in (None, [DescribableLogDirTopic(topic="fresh", partitions=[0, 1, 2])]):
            (folder,) = client.request(DescribeLogDirsRequest(topics=topics)).results
            (topic,) = folder.topics
            sizes = {partition.partition_index: partition.partition_size for partition in topic.partitions}
            assert (topic.name, sizes) == ("fresh", {0: 0, 1: 0, 2: 0})
