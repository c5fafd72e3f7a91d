"""DescribeLogDirs (key 35, v1-5): the data folders, the space on their volumes, the size of each replica. UIs ask for it on every page.

v3: an error for the whole answer. v4: total and usable bytes (KIP-827). v5: cordoned folders (KIP-1066), which kafkapy does not have.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkapy.log.data_folder import DataFolder
    from kafkapy.log.partition import Partition


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Every folder, with those of the topics asked for that lie in it."""
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs = context.broker.logs
    by_folder: dict[str, dict[str, DescribeLogDirsTopic]] = {folder.path: {} for folder in logs.folders}
    for name, replica in _replicas(context, wanted):
        untouched = not logs.contains(
            name
        )  # its folder comes with its first record; Apache Kafka shows it from the start
        folder = logs.folder_for_next() if untouched else logs.data_folder(name)
        if folder is None:
            continue
        topic = by_folder[folder.path].setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
        partition = DescribeLogDirsPartition(partition_index=name.partition)
        if not untouched:
            partition.partition_size = replica.log.size_bytes
            partition.offset_lag = max(0, replica.high_watermark - replica.log.log_end_offset)
        topic.partitions.append(partition)
    return DescribeLogDirsResponse(
        results=[_result(folder, list(by_folder[folder.path].values())) for folder in logs.folders]
    )


def _replicas(
    context: RequestContext, wanted: set[TopicPartition] | None
) -> Iterator[tuple[TopicPartition, Partition]]:
    """Those of this broker's replicas that are asked for."""
    for topic in context.broker.replicas.topics.values():
        for index, replica in topic.partitions.items():
            name = TopicPartition(topic.name, index)
            if wanted is None or name in wanted:
                yield name, replica


def _result(folder: DataFolder, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    if folder.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=folder.path)
    space = shutil.disk_usage(folder.path)
    return DescribeLogDirsResult(log_dir=folder.path, topics=topics, total_bytes=space.total, usable_bytes=space.free)
