"""What every job needs around its transforms: a Spark session, the options of a Kafka client, errors in one line, progress.

A job runs as `kafkapy archive ...`, as `spark-submit spark_jobs/archive.py ...` or as `python -m spark_jobs.archive ...`. Importing a job
loads no Spark: `kafkapy archive --help` answers at once, and without pyspark too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_POLL_S = 0.2

# Lines of a Java or Python traceback that are about where, not about what.
_NOISE = re.compile(r"^\s*(at |File |Traceback|===|JVM stacktrace|SQLSTATE|\.\.\.)")


class JobError(click.ClickException):
    """A job ends with this line; nothing that was written before is touched."""

    exit_code = 1


def require_spark() -> None:
    """One line for somebody who has no Spark, instead of a traceback."""
    if importlib.util.find_spec("pyspark") is None:
        raise JobError("this needs Apache Spark: pip install 'kafkapy[spark]' (and Java 17)")


@contextlib.contextmanager
def session(name: str, master: str | None = None) -> Iterator[SparkSession]:
    """A Spark session for the length of a block; what goes wrong in it ends the job with one line.

    A session that is there already, as in a notebook, is used and left running.
    """
    require_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    spark = None
    existing = SparkSession.getActiveSession()
    try:
        if existing is None:
            spark = _started(name, master)
        yield existing or spark
    except (PySparkException, Py4JError) as error:
        if os.environ.get("KAFKAPY_DEBUG"):
            raise
        raise JobError(one_line(error)) from None
    finally:
        if spark is not None:
            spark.stop()


def _started(name: str, master: str | None) -> SparkSession:
    """The session that spark-submit has prepared, or one on this machine."""
    import pyspark
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    package = f"{_PACKAGE}:{pyspark.__version__}"
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started the JVM already
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a topic named 007 is not the number 7
        "spark.sql.maxConcurrentOutputFileWriters": "64",  # a topic's dates are written side by side instead of sorted first
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
        "spark.sql.streaming.stopTimeout": "30s",
    }
    conf = SparkConf()
    if not conf.contains("spark.master"):
        settings["spark.master"] = master or "local[*]"
        if settings["spark.master"].startswith("local"):
            settings["spark.sql.shuffle.partitions"] = "8"  # 200, the default, is for clusters
    if not submitted:
        settings.setdefault("spark.jars.packages", _joined(conf.get("spark.jars.packages", ""), package))
        settings["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
        settings["spark.log.level"] = "ERROR"
    builder = SparkSession.builder.appName(f"kafkapy {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise JobError(
            f"Spark did not start ({one_line(error)}); it needs Java 17, and once the internet to fetch {package}"
        ) from None
    spark.sparkContext.setLogLevel(os.environ.get("KAFKAPY_SPARK_LOG_LEVEL", "ERROR"))
    if submitted and not _has_kafka(spark):
        spark.sql(f"ADD JAR ivy://{package}")
    return spark


def _joined(*packages: str | None) -> str:
    return ",".join(package for package in packages if package)


def _has_kafka(spark: SparkSession) -> bool:
    """Whether Spark's kafka source is on the class path."""
    from py4j.protocol import Py4JError

    try:
        spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(
            "org.apache.spark.sql.kafka010.KafkaSourceProvider"
        )
    except Py4JError:
        return False
    return True


def one_line(error: BaseException) -> str:
    """The sentence of an error that says what is wrong: the innermost cause of Java's, the first line of Python's."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = ""
    with contextlib.suppress(Exception):
        while java is not None:
            said = java.getMessage()
            if said:
                # Spark's own messages begin with their [ERROR_CLASS]; others mean little without their kind.
                text = said if said.startswith("[") else f"{java.getClass().getSimpleName()}: {said}"
            java = java.getCause()
    text = text or str(error)
    python = re.findall(r"^(?:[\w.]+\.)?(?:LogFolderError|JobError): (.*)$", f"{text}\n{error}", re.MULTILINE)
    if python:
        return str(python[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    return lines[0] if lines else type(error).__name__


# Options that several jobs have.


def kafka_options(function: Any) -> Any:
    """--bootstrap and -X for a job that talks to a broker."""
    function = click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        help="A property of Spark's Kafka client, such as security.protocol=SSL.",
    )(function)
    return click.option(
        "-b",
        "--bootstrap",
        default="localhost:9092",
        envvar="KAFKAPY_BOOTSTRAP",
        show_default=True,
        metavar="HOST:PORT[,...]",
        help="Brokers to ask first.",
    )(function)


def master_option(function: Any) -> Any:
    """--master, as spark-submit has it."""
    return click.option(
        "--master", metavar="URL", help="Where Spark runs: local[4], spark://HOST:PORT, yarn.  [default: local[*]]"
    )(function)


def client_options(bootstrap: str, properties: Sequence[str], committed: bool = False) -> dict[str, str]:
    """The options of Spark's kafka source and sink, which hand everything that begins with `kafka.` to the client."""
    options = {"kafka.bootstrap.servers": bootstrap}
    for text in properties:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"-X {text}: not of the form KEY=VALUE")
        options[f"kafka.{key.strip()}"] = value.strip()
    if committed:
        options["kafka.isolation.level"] = "read_committed"
    return options


# Progress.


def say(text: str) -> None:
    """A line about what is going on; standard output is for results."""
    click.echo(text, err=True)


def follow(query: StreamingQuery, what: str) -> None:
    """Wait for a stream to end, telling of every batch; ctrl-C stops it in order."""
    told = -1
    try:
        while query.isActive:
            told = _tell(query.lastProgress, what, told)
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        say("stopping")
        query.stop()
    _tell(query.lastProgress, what, told)
    failure = query.exception()
    if failure is not None:
        raise failure


def _tell(progress: Any, what: str, told: int) -> int:
    """One line for the latest batch unless it was told of already."""
    if progress is None or progress["batchId"] == told or not progress["numInputRows"]:
        return told
    rows, seconds = progress["numInputRows"], progress["batchDuration"] / 1000
    behind = sum(
        int(float(source.get("metrics", {}).get("maxOffsetsBehindLatest") or 0)) for source in _sources(progress)
    )
    say(
        f"batch {progress['batchId']}: {rows:,} {what} in {seconds:.1f} s ({rows / max(seconds, 0.001):,.0f}/s), {behind:,} behind"
    )
    return int(progress["batchId"])


def _sources(progress: Any) -> Sequence[Mapping[str, Any]]:
    return [{"metrics": dict(source["metrics"] or {})} for source in progress["sources"]]
