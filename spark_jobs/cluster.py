"""What the driver asks a Kafka cluster, through the admin client that Spark's kafka source brings: any security setting works for both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spark_jobs.session import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_MS = "15000"
_REQUEST_TIMEOUT_MS = "5000"


class Topic(NamedTuple):
    """A topic by its id, which a topic that was deleted and created anew has not kept."""

    name: str
    id: str
    partitions: tuple[int, ...]


class Cluster:
    """Questions to a cluster, for the length of a with block."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        from py4j.protocol import Py4JJavaError

        self._jvm: Any = spark._jvm
        self.bootstrap = options["kafka.bootstrap.servers"]
        self._committed = options.get("kafka.isolation.level") == "read_committed"
        properties = self._jvm.java.util.Properties()
        properties.put("default.api.timeout.ms", _TIMEOUT_MS)
        properties.put("request.timeout.ms", _REQUEST_TIMEOUT_MS)
        for key, value in options.items():
            if key.startswith("kafka.") and key != "kafka.isolation.level":
                properties.put(key.removeprefix("kafka."), value)
        try:
            self._admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise JobError(f"{self.bootstrap}: {cause.getMessage()}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _get(self, future: Any) -> Any:
        """The answer, or one line that says why there is none."""
        from py4j.protocol import Py4JJavaError

        try:
            return future.get()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            kind = str(cause.getClass().getSimpleName())
            if kind in ("TimeoutException", "DisconnectException"):
                raise JobError(
                    f"no broker answers at {self.bootstrap}; name another with --bootstrap HOST:PORT"
                ) from None
            raise JobError(f"{self.bootstrap}: {cause.getMessage()} ({kind})") from None

    def id(self) -> str:
        """The cluster's id."""
        return str(self._get(self._admin.describeCluster().clusterId()))

    def names(self) -> list[str]:
        """All topics but the internal ones."""
        return sorted(str(name) for name in self._get(self._admin.listTopics().names()))

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of these names; JobError names those that are not there."""
        names = sorted(set(names))
        there = self.names()
        missing = [name for name in names if name not in there]
        if missing:
            known = ", ".join(there[:20]) or "none"
            raise JobError(f"no topic {', '.join(missing)} at {self.bootstrap}; there are: {known}")
        wanted = self._jvm.java.util.ArrayList()
        for name in names:
            wanted.add(name)
        described = self._get(self._admin.describeTopics(wanted).allTopicNames())
        found = {}
        for name in names:
            topic = described.get(name)
            numbers = tuple(int(partition.partition()) for partition in topic.partitions())
            found[name] = Topic(name, str(topic.topicId().toString()), tuple(sorted(numbers)))
        return found

    def offsets(self, topics: Iterable[Topic], latest: bool) -> dict[str, dict[int, int]]:
        """Where each partition begins, or ends for a reader of this isolation level."""
        admin = self._jvm.org.apache.kafka.clients.admin
        spec = admin.OffsetSpec.latest() if latest else admin.OffsetSpec.earliest()
        asked = self._jvm.java.util.HashMap()
        partitions = [
            (topic.name, number, self._jvm.org.apache.kafka.common.TopicPartition(topic.name, number))
            for topic in topics
            for number in topic.partitions
        ]
        for _, _, partition in partitions:
            asked.put(partition, spec)
        levels = self._jvm.org.apache.kafka.common.IsolationLevel
        options = admin.ListOffsetsOptions(levels.READ_COMMITTED if self._committed else levels.READ_UNCOMMITTED)
        answer = self._get(self._admin.listOffsets(asked, options).all())
        found: dict[str, dict[int, int]] = {}
        for name, number, partition in partitions:
            found.setdefault(name, {})[number] = int(answer.get(partition).offset())
        return found

    def group_offsets(self, group: str) -> dict[str, dict[int, int]]:
        """What a consumer group has committed."""
        answer = self._get(self._admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
        found: dict[str, dict[int, int]] = {}
        for partition in answer.keySet():
            committed = answer.get(partition)
            if committed is not None:
                found.setdefault(str(partition.topic()), {})[int(partition.partition())] = int(committed.offset())
        return found
