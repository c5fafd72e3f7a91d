"""`smoke.py BOOTSTRAP TOPIC FOLDER`: Spark's kafka sink and source against a new topic. Runs in an environment that has pyspark."""

from __future__ import annotations

import sys

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROWS = 1_000


def main(bootstrap: str, topic: str, folder: str) -> None:
    """Write in a batch, read in a batch, read as a stream to its end, write more, go on from the checkpoint."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}")
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    write(spark, bootstrap, topic, 0)
    read = spark.read.format("kafka").options(**options).load()
    check(read, 0, ROWS)
    assert {row["partition"] for row in read.select("partition").distinct().collect()} == {0, 1}
    assert read.first()["headers"][0]["key"] == "source"
    for start in (0, ROWS):
        if start:
            write(spark, bootstrap, topic, start)
        stream = spark.readStream.format("kafka").options(**options).load().select("value")
        writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.option("path", f"{folder}/out").trigger(availableNow=True).start()
        assert query.awaitTermination(120) and query.exception() is None
        check(spark.read.parquet(f"{folder}/out"), 0, start + ROWS)
    spark.stop()


def write(spark: SparkSession, bootstrap: str, topic: str, start: int) -> None:
    """So many rows, each with a key and a header."""
    header = F.array(F.struct(F.lit("source").alias("key"), F.lit("spark").cast("binary").alias("value")))
    number = F.col("id").cast("string")
    rows = spark.range(start, start + ROWS).select(number.alias("key"), number.alias("value"), header.alias("headers"))
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).option(
        "includeHeaders", "true"
    ).save()


def check(rows: DataFrame, start: int, end: int) -> None:
    """Each number once, none missing."""
    found = sorted(int(row["value"]) for row in rows.select(F.col("value").cast("string")).collect())
    assert found == list(range(start, end)), f"{len(found)} rows instead of {end - start}"


if __name__ == "__main__":
    main(*sys.argv[1:])
