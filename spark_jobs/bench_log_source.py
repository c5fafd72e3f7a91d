"""Records per second of `kafkapy-log` and of Spark's kafka source over the same topic: count and sum of value lengths.

python -m spark_jobs.bench_log_source DATA_FOLDER HOST:PORT TOPIC
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.log_source import register

KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
ROUNDS = 4


def main(folder: str, bootstrap: str, topic: str) -> None:
    """Measure both in turn, the first round being for the just-in-time compiler."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", KAFKA_PACKAGE)
    spark = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    segments = spark.read.format("kafkapy-log").option("subscribe", topic).load(folder)
    broker = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic}).load()
    for turn in range(ROUNDS):
        for name, rows in (("kafkapy-log", segments), ("kafka", broker)):
            count, rate = measured(rows)
            if turn:
                print(f"{name:12} {count:>12,} records {rate:>12,.0f} records/s", flush=True)
    spark.stop()


def measured(rows: DataFrame) -> tuple[int, float]:
    """(records, records per second)."""
    begin = time.perf_counter()
    count = rows.agg(F.count("*"), F.sum(F.length("value"))).collect()[0][0]
    return count, count / (time.perf_counter() - begin)


if __name__ == "__main__":
    main(*sys.argv[1:])
