"""What the checks share: the Spark session, a client for what Spark cannot do, names, folders."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

WAIT_S = 60.0


class World:
    """One broker, one Spark session."""

    def __init__(self, bootstrap: str, folder: Path, data_folder: Path | None) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.data_folder = data_folder
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self.spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars.packages", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")  # what fails on purpose need not be told at length

    def close(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    # Topics and records.

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic; `segment_ms="1"` stands for segment.ms=1."""
        name = f"spark-{uuid.uuid4().hex[:10]}"
        # Checks write records of years ago, which retention would delete under them.
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        self.admin.create_topics([new], operation_timeout=20)[name].result(30)
        return name

    def produce(self, topic: str, values: Iterable[Any], partition: int = 0, **more: Any) -> None:
        """Records with these values, text of numbers as a rule; `key`, `headers` and `timestamp` may be functions of the value."""
        config = {"bootstrap.servers": self.bootstrap, "linger.ms": 5, **more.pop("config", {})}
        producer = Producer(config)
        self.send(producer, topic, values, partition, **more)
        assert producer.flush(WAIT_S) == 0, "not all records were acknowledged"

    def send(self, producer: Producer, topic: str, values: Iterable[Any], partition: int = 0, **more: Any) -> None:
        """The same with a producer that is there already."""
        for number, value in enumerate(values):
            fields = {name: field(value) if callable(field) else field for name, field in more.items()}
            data = value if value is None or isinstance(value, bytes) else str(value).encode()
            producer.produce(topic, value=data, partition=partition, **fields)
            if number % 1000 == 0:
                producer.poll(0)

    def transactional(self, **config: Any) -> Producer:
        """A producer whose transactions are initialised."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": uuid.uuid4().hex, **config})
        producer.init_transactions(WAIT_S)
        return producer

    # Spark.

    def options(self, topic: str, **more: Any) -> dict[str, str]:
        """The options of Spark's source; underscores of `kafka_...` names stand for dots."""
        given = {key.replace("_", "."): value for key, value in more.items()}
        texts = {key: json.dumps(value) if isinstance(value, dict) else str(value) for key, value in given.items()}
        named = {} if {"subscribePattern", "assign"} & texts.keys() else {"subscribe": topic}
        return {"kafka.bootstrap.servers": self.bootstrap, **named, "startingOffsets": "earliest", **texts}

    def read(self, topic: str, **more: Any) -> DataFrame:
        """The topic in a batch."""
        options = self.options(topic, **more)
        if any(key.startswith("starting") and key != "startingOffsets" for key in options):
            del options["startingOffsets"]
        return self.spark.read.format("kafka").options(**options).load()

    def stream(self, topic: str, out: str, trigger: Mapping[str, Any] | None = None, **more: Any) -> StreamingQuery:
        """The topic as a stream into Parquet files; `out` names files and checkpoint."""
        rows = self.spark.readStream.format("kafka").options(**self.options(topic, **more)).load()
        writer = rows.selectExpr("CAST(value AS STRING) AS value", "partition", "offset").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", f"{self.folder}/{out}-checkpoint").option(
            "path", f"{self.folder}/{out}"
        )
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def streamed(self, out: str) -> list[int]:
        """What a stream has written so far, sorted."""
        rows = self.spark.read.schema("value string").parquet(f"{self.folder}/{out}").collect()
        return sorted(int(row["value"]) for row in rows)

    def ends(self, query: StreamingQuery) -> list[Any]:
        """Wait for a stream that ends by itself; the progress of its batches that had rows."""
        assert query.awaitTermination(int(2 * WAIT_S)), "the stream did not end"
        assert query.exception() is None, str(query.exception())
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    def job(self, command: Any, *args: object) -> None:
        """One of spark_jobs, in this session."""
        broker = [] if "--segments" in args else ["--bootstrap", self.bootstrap]
        command.main([*map(str, args), *broker], standalone_mode=False)


def numbers(rows: DataFrame | Sequence[Row]) -> list[int]:
    """The values as numbers, sorted."""
    found = rows.select("value").collect() if isinstance(rows, DataFrame) else rows
    return sorted(int(row["value"]) for row in found)


def fails(action: Callable[[], Any], *parts: str) -> None:
    """The action raises, and its message has all of this in it."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 -- whichever: its text is what people see
        text = str(getattr(error, "message", "")) + str(error)
        assert all(part in text for part in parts), f"{parts} not in: {text[:800]}"
        return
    raise AssertionError(f"nothing was raised where {parts} was expected")


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.5)
