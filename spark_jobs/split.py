"""split: one topic into several by a rule; key, value, headers stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from spark_jobs.cluster import Cluster
from spark_jobs.columns import F
from spark_jobs.events import DROP, FAIL, bad, events, good, prepare, run, source, stream_options
from spark_jobs.session import client_options, kafka_options, master_option, session
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def target_of(rules: Sequence[tuple[str, str]], by: str | None, otherwise: str | None) -> Column:
    """The topic of an event: of the first rule that is true, or what an expression says; null where nothing fits."""
    rest = F.lit(otherwise).cast("string")
    if by is not None:
        return F.coalesce(F.expr(by).cast("string"), rest)
    chosen = None
    for topic, condition in rules:
        chosen = (F if chosen is None else chosen).when(F.expr(condition), F.lit(topic))
    assert chosen is not None, "there is a rule or an expression"
    return chosen.otherwise(rest)


def split(records: DataFrame, schema: str | None, on_bad: str, target: Column) -> DataFrame:
    """From rows of the kafka source to rows for its sink."""
    rows = events(records, schema)
    chosen = good(rows, on_bad).withColumn("target", target).where(F.col("target").isNotNull())
    result = chosen.select(
        F.col("raw_key").alias("key"), F.col("raw_value").alias("value"), "headers", F.col("target").alias("topic")
    )
    return result if on_bad in (FAIL, DROP) else result.unionByName(bad(rows, on_bad))


def rules_of(texts: Sequence[str]) -> list[tuple[str, str]]:
    """[(topic, condition)] from TOPIC=SQL."""
    rules = []
    for text in texts:
        topic, equals, condition = text.partition("=")
        if not equals or not topic.strip() or not condition.strip():
            raise click.UsageError(f"--rule {text!r}: not of the form TOPIC=SQL")
        rules.append((topic.strip(), condition.strip()))
    return rules


@click.command("split")
@click.argument("topic")
@click.option(
    "--rule",
    "rule_texts",
    multiple=True,
    metavar="TOPIC=SQL",
    help="Events for which this is true go there; the first rule that is true counts.",
)
@click.option(
    "--by", metavar="SQL", help="Instead of rules: the name of the topic, such as \"concat('orders-', v.region)\"."
)
@click.option("--otherwise", metavar="TOPIC", help="For the rest.  [default: left out]")
@stream_options
@kafka_options
@master_option
def main(
    topic: str,
    rule_texts: tuple[str, ...],
    by: str | None,
    otherwise: str | None,
    schema: str | None,
    checkpoint: str,
    on_bad: str,
    every_s: float | None,
    bootstrap: str,
    properties: tuple[str, ...],
    master: str | None,
) -> None:
    """Divide a topic into several.

    Rules see what transform sees: key and value as text, headers, topic, partition, offset, timestamp, and with --schema the fields of v.
    """
    rules = rules_of(rule_texts)
    if bool(rules) == (by is not None):
        raise click.UsageError("say --rule, as often as needed, or --by")
    options = client_options(bootstrap, properties)
    with session("split", master) as spark:
        storage = Storage(spark, checkpoint)
        with Cluster(spark, options) as cluster:
            extra = [otherwise] if otherwise else []
            extra += [] if on_bad in (FAIL, DROP) else [on_bad]
            rows = split(source(spark, topic, options), schema, on_bad, target_of(rules, by, otherwise))
            plan = {"rules": rules, "by": by, "otherwise": otherwise, "schema": schema, "bad": on_bad}
            prepare(storage, cluster, topic, [*(name for name, _ in rules), *extra], plan)
        run(rows, options, storage, every_s)


if __name__ == "__main__":
    main()
