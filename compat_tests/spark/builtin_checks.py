"""Spark's own kafka source and sink, unmodified: each thing that people use of them. A check is a row of the matrix."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import functions as F

from compat_tests.spark.world import WAIT_S, World, eventually, fails, numbers


def check_batch_read_and_write(world: World) -> None:
    """Key, value, header, partition, offset and timestamp type come back as they were written."""
    topic = world.topic(2)
    rows = world.spark.range(1000).select(
        F.col("id").cast("string").alias("key"), F.col("id").cast("string").alias("value")
    )
    rows.write.format("kafka").options(**{"kafka.bootstrap.servers": world.bootstrap, "topic": topic}).save()
    read = world.read(topic)
    assert numbers(read) == list(range(1000))
    assert {row["partition"] for row in read.select("partition").distinct().collect()} == {0, 1}
    offsets = read.groupBy("partition").agg(
        F.count("*").alias("n"), F.min("offset").alias("low"), F.max("offset").alias("high")
    )
    assert all(row["low"] == 0 and row["high"] == row["n"] - 1 for row in offsets.collect())
    assert read.where("timestampType != 0").count() == 0


def check_timestamps(world: World) -> None:
    """startingTimestamp and startingOffsetsByTimestamp find the first record at or after a time; one that is later than all is told."""
    topic, at = world.topic(2), 1_700_000_000_000
    for partition in (0, 1):
        world.produce(
            topic, range(partition * 100, partition * 100 + 100), partition, timestamp=lambda v: at + v % 100 * 1000
        )
    assert numbers(world.read(topic, startingTimestamp=at + 90_000)) == [*range(90, 100), *range(190, 200)]
    assert numbers(world.read(topic, startingTimestamp=at + 89_001, endingTimestamp=at + 92_000)) == [90, 91, 190, 191]
    by_partition = {topic: {"0": at + 98_000, "1": at + 99_000}}
    assert numbers(world.read(topic, startingOffsetsByTimestamp=by_partition)) == [98, 99, 199]
    fails(lambda: world.read(topic, startingTimestamp=at + 10**9).count(), "offset")
    latest = world.read(topic, startingTimestamp=at + 10**9, startingOffsetsByTimestampStrategy="latest")
    assert latest.count() == 0
    times = world.read(topic).select(F.unix_millis("timestamp").alias("ms")).agg(F.min("ms"), F.max("ms")).first()
    assert tuple(times) == (at, at + 99_000)
    appended = world.topic(1, message_timestamp_type="LogAppendTime")
    world.produce(appended, range(3), timestamp=at)
    assert (
        world.read(appended).where(F.col("timestampType") == 1).where(F.unix_millis("timestamp") > at + 10**9).count()
        == 3
    )


def check_min_partitions(world: World) -> None:
    """Ranges are split among more tasks than there are partitions, and nothing is lost at the cuts."""
    topic = world.topic(2)
    for partition in (0, 1):
        world.produce(topic, range(partition * 500, partition * 500 + 500), partition)
    read = world.read(topic, minPartitions=9)
    assert read.rdd.getNumPartitions() >= 9
    assert numbers(read) == list(range(1000))


def check_max_offsets_per_trigger(world: World) -> None:
    """A stream takes so many offsets in each batch."""
    topic = world.topic(2)
    for partition in (0, 1):
        world.produce(topic, range(partition * 150, partition * 150 + 150), partition)
    query = world.stream(topic, topic, {"processingTime": "0 seconds"}, maxOffsetsPerTrigger=100)
    query.processAllAvailable()
    rows = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    query.stop()
    assert rows == [100, 100, 100], rows
    assert world.streamed(topic) == list(range(300))


def check_available_now(world: World) -> None:
    """Trigger.AvailableNow reads what is there at its start, in several batches, and ends."""
    topic = world.topic(1)
    world.produce(topic, range(250))
    batches = world.ends(world.stream(topic, topic, maxOffsetsPerTrigger=100))
    assert [progress["numInputRows"] for progress in batches] == [100, 100, 50]
    assert world.streamed(topic) == list(range(250))


def check_restart_from_checkpoint(world: World) -> None:
    """A stream that was stopped goes on where it was, and reads nothing twice."""
    topic = world.topic(2)
    for start in (0, 100, 200):
        world.produce(topic, range(start, start + 50), 0)
        world.produce(topic, range(start + 50, start + 100), 1)
        world.ends(world.stream(topic, topic))
        assert world.streamed(topic) == list(range(start + 100))


def check_read_committed(world: World) -> None:
    """Aborted records are left out, and a batch ends before the first open transaction, without waiting for it."""
    topic = world.topic(1)
    world.produce(topic, range(10))
    producer = world.transactional()
    for start, commit in ((10, True), (20, False), (30, True)):
        producer.begin_transaction()
        world.send(producer, topic, range(start, start + 10))
        assert producer.flush(WAIT_S) == 0  # an abort would drop what is not sent yet
        producer.commit_transaction(WAIT_S) if commit else producer.abort_transaction(WAIT_S)
    producer.begin_transaction()
    world.send(producer, topic, range(40, 50))
    assert producer.flush(WAIT_S) == 0
    world.produce(topic, range(50, 60))
    committed = world.read(topic, kafka_isolation_level="read_committed")
    assert numbers(committed) == [*range(20), *range(30, 40)]
    assert numbers(world.read(topic)) == list(range(60))
    world.ends(world.stream(topic, topic, kafka_isolation_level="read_committed"))
    assert world.streamed(topic) == [*range(20), *range(30, 40)]
    producer.commit_transaction(WAIT_S)
    world.ends(world.stream(topic, topic, kafka_isolation_level="read_committed"))
    assert world.streamed(topic) == [*range(20), *range(30, 60)]


def check_compacted_topic_with_holes(world: World) -> None:
    """Offsets that compaction has removed are passed over, at the start, in the middle, and where a task's range begins in a hole."""
    topic = compacted(world)
    left = held(world, topic)
    read = world.read(topic, minPartitions=6)
    assert sorted(row["offset"] for row in read.select("offset").collect()) == left
    assert world.read(topic, startingOffsets={topic: {"0": 7}}).count() == sum(offset >= 7 for offset in left)


def compacted(world: World) -> str:
    """A topic from which the cleaner has removed records of the same few keys."""
    config = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.01",
        "max_compaction_lag_ms": "500",
    }
    topic = world.topic(1, **config)
    for round_ in range(6):
        world.produce(topic, range(round_ * 40, round_ * 40 + 40), key=lambda v: str(v % 7))
        time.sleep(0.15)
    eventually(lambda: len(held(world, topic)) < 200, "the cleaner removes records")
    size = -1
    while size != (size := len(held(world, topic))):
        time.sleep(1)
    return topic


def held(world: World, topic: str) -> list[int]:
    """The offsets that a plain consumer finds."""
    consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "held", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(WAIT_S)) is not None and not message.error():
        found.append(message.offset())
    consumer.close()
    return found


def check_retention_moving_under_a_query(world: World) -> None:
    """Records that are deleted before a stream comes to them: an error that says so, or gone on without them."""
    topic = world.topic(1)
    world.produce(topic, range(100))
    for out in ("strict", "lenient"):
        world.ends(world.stream(topic, f"{topic}-{out}"))
    world.produce(topic, range(100, 200))
    world.admin.delete_records([TopicPartition(topic, 0, 150)])[TopicPartition(topic, 0)].result(WAIT_S)

    def strict() -> None:
        query = world.stream(topic, f"{topic}-strict")
        query.awaitTermination(int(WAIT_S))

    fails(strict, "failOnDataLoss", "offset [100, 200)")
    world.ends(world.stream(topic, f"{topic}-lenient", failOnDataLoss="false"))
    assert world.streamed(f"{topic}-lenient") == [*range(100), *range(150, 200)]


def check_empty_topics(world: World) -> None:
    """Nothing is read, nothing waits, and the first records are found later."""
    topic = world.topic(3)
    assert world.read(topic).count() == 0
    assert world.read(topic, kafka_isolation_level="read_committed").count() == 0
    world.ends(world.stream(topic, topic))
    world.produce(topic, range(5), 1)
    world.ends(world.stream(topic, topic))
    assert world.streamed(topic) == list(range(5))


def check_a_thousand_partitions(world: World) -> None:
    """The offsets of all are asked for in every batch, and what is in some of them is read, in a batch and as a stream."""
    topic = world.topic(1000)
    number = F.col("id") * 40
    rows = world.spark.range(25).select(number.cast("string").alias("value"), number.cast("int").alias("partition"))
    rows.coalesce(2).write.format("kafka").options(
        **{"kafka.bootstrap.servers": world.bootstrap, "topic": topic}
    ).save()
    read = world.read(topic)
    assert numbers(read.where("CAST(CAST(value AS STRING) AS INT) = partition")) == list(range(0, 1000, 40))
    world.ends(world.stream(topic, topic))
    assert world.streamed(topic) == list(range(0, 1000, 40))


def check_headers(world: World) -> None:
    """Names may repeat, values may be null or any bytes, order is kept; both ways."""
    topic, copy = world.topic(1), world.topic(1)
    headers = [("a", b"1"), ("b", None), ("a", b"\xff\x00"), ("ü", b"")]
    world.produce(topic, [1], headers=headers)
    read = world.read(topic, includeHeaders="true")
    options = {"kafka.bootstrap.servers": world.bootstrap, "topic": copy, "includeHeaders": "true"}
    read.select("value", "headers").write.format("kafka").options(**options).save()
    for name in (topic, copy):
        row = world.read(name, includeHeaders="true").first()
        assert [(h["key"], None if h["value"] is None else bytes(h["value"])) for h in row["headers"]] == headers
    world.produce(topic, [2])
    assert world.read(topic, includeHeaders="true").where("value = '2'").first()["headers"] is None


def check_sink_creates_topics(world: World) -> None:
    """Rows say their topic, topics come into being by being written to, and a query's checkpoint keeps the sink from doubling."""
    source, left, right = (
        world.topic(1),
        "spark-auto-left-" + world.topic()[-6:],
        "spark-auto-right-" + world.topic()[-6:],
    )
    world.produce(source, range(100))
    for _ in range(2):
        rows = world.spark.readStream.format("kafka").options(**world.options(source)).load()
        rows = rows.selectExpr("value", f"IF(CAST(CAST(value AS STRING) AS INT) % 2 = 0, '{left}', '{right}') AS topic")
        writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", world.bootstrap)
        world.ends(writer.option("checkpointLocation", f"{world.folder}/{left}").trigger(availableNow=True).start())
    assert numbers(world.read(left)) == list(range(0, 100, 2))
    assert numbers(world.read(right)) == list(range(1, 100, 2))


def check_pattern_and_assign(world: World) -> None:
    """subscribePattern finds topics by name, new ones too; assign takes some partitions."""
    topic = world.topic(2)
    world.produce(topic, range(10), 0)
    world.produce(topic, range(10, 20), 1)
    assert numbers(world.read("", assign={topic: [1]})) == list(range(10, 20))
    prefix = topic[:-1]
    assert numbers(world.read("", subscribePattern=f"{prefix}.*")) == list(range(20))
    fails(lambda: world.read("no-such-topic-at-all").count(), "UnknownTopicOrPartition")


def check_deprecated_offset_fetching(world: World) -> None:
    """The older way, by a consumer of a group on the driver, works too."""
    topic = world.topic(2)
    world.produce(topic, range(50))
    world.spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        assert numbers(world.read(topic)) == list(range(50))
        world.ends(world.stream(topic, topic))
        assert world.streamed(topic) == list(range(50))
    finally:
        world.spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "false")


def check_all_codecs(world: World) -> None:
    """What the sink compresses the source reads."""
    topic = world.topic(1)
    for turn, codec in enumerate(("gzip", "snappy", "lz4", "zstd")):
        rows = world.spark.range(turn * 500, turn * 500 + 500, 1, 1).selectExpr("CAST(id AS STRING) AS value")
        options = {"kafka.bootstrap.servers": world.bootstrap, "topic": topic, "kafka.compression.type": codec}
        rows.write.format("kafka").options(**options).save()
    assert numbers(world.read(topic)) == list(range(2000))
