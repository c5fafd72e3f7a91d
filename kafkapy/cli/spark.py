"""`kafkapy archive|replay|audit|transform|split|stats`: the Spark jobs, run by this process on `local[*]` or wherever --master says.

The jobs are in spark_jobs/, each with its own options; here they get kafkapy's global options and the way it tells failures. Neither this
module nor a job's loads pyspark before the job runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kafkapy.cli.failures import FAILED, UNREACHABLE, Failure
from kafkapy.cli.framework import Command
from kafkapy.cli.session import BOOTSTRAP_DEFAULT, BOOTSTRAP_VARIABLE, Session
from kafkapy.config.properties import parse_properties
from spark_jobs import archive as archive_job
from spark_jobs import audit as audit_job
from spark_jobs import replay as replay_job
from spark_jobs import split as split_job
from spark_jobs import stats as stats_job
from spark_jobs import transform as transform_job
from spark_jobs.session import JobError

_GLOBAL = ("bootstrap", "properties")  # options that the framework has for every command


def client_properties(session: Session) -> dict[str, str]:
    """What -X and --client-config say. Spark's client is Java's, so any of its properties may be among them."""
    found: dict[str, str] = {}
    if session.client_config:
        found = {key: value for key, (value, _) in parse_properties(Path(session.client_config).read_text()).items()}
    for assignment in session.properties:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"-X {assignment}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _runner(job: click.Command) -> Callable[..., None]:
    """The job's function, given the global options in its own form."""

    def run(**options: Any) -> None:
        session = click.get_current_context().ensure_object(Session)
        properties = client_properties(session)
        named = properties.pop("bootstrap.servers", "") or os.environ.get(BOOTSTRAP_VARIABLE, "") or BOOTSTRAP_DEFAULT
        options["bootstrap"] = session.bootstrap or named
        options["properties"] = tuple(f"{key}={value}" for key, value in properties.items())
        assert job.callback is not None, "a job is a function with options"
        try:
            job.callback(**options)
        except JobError as error:
            unreachable = error.message.startswith("no broker answers")
            raise Failure(error.message, UNREACHABLE if unreachable else FAILED) from None

    return run


def _command(job: click.Command, examples: str) -> Command:
    """A job as a command of kafkapy."""
    assert job.name and job.help, "every job is named and explained"
    params = [param for param in job.params if param.name not in _GLOBAL]
    short = job.help.split("\n\n")[0].strip()
    return Command(job.name, params=params, help=job.help, short_help=short, callback=_runner(job), examples=examples)


archive = _command(
    archive_job.main,
    """
    kafkapy archive orders users --to /backup/kafka
    kafkapy archive --to /backup/kafka --merge 256
    kafkapy archive orders --to s3a://bucket/kafka --committed --follow 60
    """,
)
replay = _command(
    replay_job.main,
    """
    kafkapy replay orders --from /backup/kafka --to orders-again --rate 5000
    kafkapy replay orders --from /backup/kafka --to orders-again --since 2026-11-18T12:00 --until 2026-11-18T13:00
    kafkapy replay orders --from /backup/kafka --to orders-again --offsets 0:100-200 --key '^customer-17$'
    """,
)
audit = _command(
    audit_job.main,
    """
    kafkapy audit --archive /backup/kafka
    kafkapy audit orders --archive /backup/kafka --complete
    """,
)
transform = _command(
    transform_job.main,
    """
    kafkapy transform orders --to large --schema 'region string, amount double' --where 'v.amount > 100' --checkpoint /var/lib/large
    kafkapy transform orders --to totals --schema 'region string, amount double' --watermark '1 minute' --checkpoint /var/lib/totals \\
        --sql "SELECT window.start, v.region AS key, sum(v.amount) AS total FROM events GROUP BY window(event_time, '5 minutes'), v.region"
    """,
)
split = _command(
    split_job.main,
    """
    kafkapy split orders --schema 'region string' --rule "orders-eu=v.region = 'eu'" --otherwise orders-rest --checkpoint /var/lib/split
    kafkapy split orders --schema 'region string' --by "concat('orders-', v.region)" --checkpoint /var/lib/split-by-region
    """,
)
stats = _command(
    stats_job.main,
    """
    kafkapy stats orders --window '1 minute' --html orders.html
    kafkapy stats orders --segments ./kafkapy-data
    kafkapy stats orders --archive /backup/kafka --parquet /backup/stats
    """,
)
