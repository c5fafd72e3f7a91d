"""Records per second of `kafkapy-log` and of Spark's kafka source over the same topic: count and sum of value lengths.

    python -m spark_jobs.bench_log_source DATA_FOLDER TOPIC HOST:PORT [HOST:PORT ...]

Several brokers, such as kafkapy and Apache Kafka, with the same records in a topic of that name are measured in turn. Beside the wall
clock stands the processor time of Spark and its Python workers, which other work on the machine disturbs less.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.log_source import register

KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
ROUNDS = 4
_TICKS_S = os.sysconf("SC_CLK_TCK")


def main(folder: str, topic: str, *brokers: str) -> None:
    """Measure all in turn, the first round being for the just-in-time compiler."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", KAFKA_PACKAGE)
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.driver.memory", "1g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    sources = {"kafkapy-log": spark.read.format("kafkapy-log").option("subscribe", topic).load(folder)}
    for broker in brokers:
        options = {"kafka.bootstrap.servers": broker, "subscribe": topic}
        sources[f"kafka {broker}"] = spark.read.format("kafka").options(**options).load()
    for turn in range(ROUNDS):
        for name, rows in sources.items():
            count, wall_s, cpu_s = measured(rows)
            warm = "" if turn else "  (warming up)"
            print(
                f"{name:24} {count:>12,} records {count / wall_s:>12,.0f}/s {count / cpu_s:>12,.0f} per CPU second{warm}",
                flush=True,
            )
    spark.stop()


def measured(rows: DataFrame) -> tuple[int, float, float]:
    """(records, seconds, processor seconds)."""
    begin, cpu = time.perf_counter(), processor_s()
    count = rows.agg(F.count("*"), F.sum(F.length("value"))).collect()[0][0]
    return count, time.perf_counter() - begin, processor_s() - cpu


def processor_s() -> float:
    """What this process and all that came from it have used: the JVM, its Python daemon, the workers."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile; its parent has its time
            continue
        pid = int(path.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    total, mine = 0, {os.getpid()}
    while mine:
        total += sum(used.get(pid, 0) for pid in mine)
        mine = {pid for pid, parent in parents.items() if parent in mine}
    return total / _TICKS_S


if __name__ == "__main__":
    main(*sys.argv[1:])
