"""The jobs of spark_jobs/ and the data source kafkapy-log, against the broker under test. A check is a row of the matrix."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from compat_tests.spark.builtin_checks import compacted
from compat_tests.spark.world import WAIT_S, World, eventually, fails, numbers
from spark_jobs import archive, audit, replay, split, stats, transform
from spark_jobs.log_source import register

ROOT = Path(__file__).resolve().parents[2]
HEADERS = "transform(headers, h -> concat(h.key, '=', coalesce(hex(h.value), '-')))"  # what except can compare


# The data source.


def check_log_source_reads_what_a_consumer_reads(world: World) -> None:
    """All codecs, headers, nulls, append time, transactions ended both ways and open: both isolation levels, row by row."""
    topic = world.topic(2, segment_bytes="1048576")
    for turn, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        config = {"compression.type": codec, "batch.size": 20_000}
        headers = [("codec", codec.encode()), ("empty", b""), ("null", None)] if turn % 2 else None
        for partition in (0, 1):
            rows = [f"{codec} {number} ".encode() * (number % 50) for number in range(2000)]
            world.produce(topic, rows, partition, config=config, key=lambda v: v[:6] or None, headers=headers)
    world.produce(topic, [None, b"", None], key=b"tombstone")
    transactions(world, topic)
    for isolation in ("read_uncommitted", "read_committed"):
        same(world, topic, isolation)
    appended = world.topic(1, message_timestamp_type="LogAppendTime")
    world.produce(appended, range(100), timestamp=5)
    same(world, appended, "read_uncommitted")


def transactions(world: World, topic: str) -> None:
    """Two that end, one that stays open, and records after it."""
    producer = world.transactional(**{"transaction.timeout.ms": 600_000})
    for start, commit in ((10, True), (20, False), (30, True)):
        producer.begin_transaction()
        world.send(producer, topic, range(start, start + 10))
        assert producer.flush(WAIT_S) == 0
        producer.commit_transaction(WAIT_S) if commit else producer.abort_transaction(WAIT_S)
    producer.begin_transaction()
    world.send(producer, topic, range(40, 50))
    assert producer.flush(WAIT_S) == 0
    world.produce(topic, range(50, 60))


def segments(world: World, topic: str, **more: Any) -> DataFrame:
    """The topic by its segments."""
    register(world.spark)
    options = {"subscribe": topic, "includeHeaders": "true", **{key: str(value) for key, value in more.items()}}
    return world.spark.read.format("kafkapy-log").options(**options).load(str(data_folder(world)))


def data_folder(world: World) -> Path:
    """The broker's own folder; these checks are not for a broker elsewhere."""
    assert world.data_folder is not None, "the broker under test is not on this machine"
    return world.data_folder


def same(world: World, topic: str, isolation: str) -> None:
    """Spark's own source and ours give the same rows, once the broker has noted how far its log is complete."""
    expected = comparable(world.read(topic, includeHeaders="true", kafka_isolation_level=isolation)).persist()
    wanted = expected.count()
    eventually(
        lambda: segments(world, topic, isolationLevel=isolation).count() >= wanted, f"{wanted} rows of {isolation}"
    )
    found = comparable(segments(world, topic, isolationLevel=isolation, splitBytes=200_000)).persist()
    assert found.count() == wanted, (found.count(), wanted)
    assert expected.exceptAll(found).count() == 0 and found.exceptAll(expected).count() == 0
    expected.unpersist()
    found.unpersist()


def comparable(rows: DataFrame) -> DataFrame:
    """All columns in a form that can be compared; no headers and none at all are the same to both."""
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    return rows.select(*columns, F.coalesce(F.expr(HEADERS), F.array().cast("array<string>")).alias("headers"))


def check_log_source_prunes_by_offset_and_time(world: World) -> None:
    """The same options as Spark's own source, the same rows."""
    topic, at = world.topic(2), 1_700_000_000_000
    for partition in (0, 1):
        world.produce(topic, range(3000), partition, timestamp=lambda v: at + v * 1000, config={"batch.size": 5000})
    eventually(lambda: segments(world, topic).count() == 6000, "the high watermark is noted")
    bounds = {
        "startingOffsets": json.dumps({topic: {"0": 100, "1": -2}}),
        "endingOffsets": json.dumps({topic: {"0": 2500, "1": 7}}),
    }
    assert numbers(segments(world, topic, **bounds)) == numbers(
        world.read(topic, **{k: json.loads(v) for k, v in bounds.items()})
    )
    times = {"startingTimestamp": at + 1_234_001, "endingTimestamp": at + 2_000_000}
    assert numbers(segments(world, topic, **times)) == numbers(world.read(topic, **times))
    fails(lambda: segments(world, topic, startingTimestamp=at + 10**9).count(), "no record at or after")
    fails(lambda: segments(world, "not-there").count(), "no topic not-there")


def check_log_source_reads_compacted_segments(world: World) -> None:
    """Holes in the offsets, segments that were swapped in."""
    topic = compacted(world)
    same(world, topic, "read_uncommitted")


# Archive.


def check_archive_survives_kill_9(world: World) -> None:
    """Killed in the middle of a run, twice, and restarted: exactly the records of the topic, and nothing left over."""
    topic, uri = filled(world, 60_000), f"{world.folder}/killed"
    for commits in (1, 4):
        run_until(
            world,
            [archive.__file__, topic, "--to", uri, "--batch", "4000"],
            lambda at=commits: newest(uri) >= at,
            kill=True,
        )
    world.job(archive.main, topic, "--to", uri)
    exactly(world, topic, uri)
    assert audit_of(world, uri)[0] == 0
    named = {path for path, _ in state_of(uri)["files"]}
    there = {str(path.relative_to(uri)) for path in Path(uri).glob("topic=*/*/*.parquet")}
    assert there == named, there ^ named


def filled(world: World, records: int, partitions: int = 3) -> str:
    """A topic with so many records with keys and headers, dates of two days."""
    topic, at = world.topic(partitions), 1_700_000_000_000
    for partition in range(partitions):
        rows = range(partition, records, partitions)
        more = {
            "key": lambda v: f"k{v % 100}",
            "headers": [("source", b"check")],
            "timestamp": lambda v: at + v % 2 * 86_400_000 + v,
        }
        world.produce(topic, rows, partition, **more)
    return topic


def exactly(world: World, topic: str, uri: str, **source: Any) -> None:
    """A plain Parquet reader finds in the archive what the topic has, row by row."""
    kept = comparable(world.spark.read.parquet(uri).where(F.col("topic") == topic)).persist()
    there = comparable(world.read(topic, includeHeaders="true", **source)).persist()
    assert kept.count() == there.count(), (kept.count(), there.count())
    assert there.exceptAll(kept).count() == 0
    kept.unpersist()
    there.unpersist()


def run_until(world: World, command: list[str], reached: Any, kill: bool) -> None:
    """Run a job as spark-submit would start it, in a process of its own, and kill it with SIGKILL when it is so far."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m pyspark-shell"}
    script, *arguments = command
    words = [sys.executable, script, *arguments, "--bootstrap", world.bootstrap, "--master", "local[2]"]
    process = subprocess.Popen(
        words, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, text=True
    )
    deadline = time.monotonic() + 5 * WAIT_S
    try:
        while kill and process.poll() is None and not reached() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # Python and the JVM that it has started
        _, errors = process.communicate()
    assert reached(), errors[-3000:]


def newest(uri: str) -> int:
    """The number of the newest commit."""
    return max((int(path.stem) for path in Path(uri, "_kafkapy/state").glob("0*.json")), default=0)


def state_of(uri: str) -> Any:
    """The archive's newest state."""
    return json.loads(Path(uri, f"_kafkapy/state/{newest(uri):012d}.json").read_text())


def audit_of(world: World, uri: str, *more: str) -> tuple[int, str]:
    """(exit code, what was printed)."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = audit.main.main(["--archive", uri, "--bootstrap", world.bootstrap, *more], standalone_mode=False)
    return code or 0, printed.getvalue()


def check_archive_merges_small_files(world: World) -> None:
    """Many small files become few, the rows stay the same, and the archive goes on afterwards."""
    topic, uri = filled(world, 9000), f"{world.folder}/merged"
    world.job(archive.main, topic, "--to", uri, "--batch", "2000")
    before = len(state_of(uri)["files"])
    world.job(archive.main, "--to", uri, "--merge", "64")
    assert len(state_of(uri)["files"]) == 2 < before
    exactly(world, topic, uri)
    world.produce(topic, range(100), 1)
    world.job(archive.main, "--to", uri)
    exactly(world, topic, uri)
    assert audit_of(world, uri, "--complete")[0] == 0


def check_archive_of_committed_transactions(world: World) -> None:
    """--committed keeps what a read_committed consumer sees."""
    topic, uri = world.topic(1), f"{world.folder}/committed"
    transactions(world, topic)
    world.job(archive.main, topic, "--to", uri, "--committed")
    assert numbers(world.spark.read.parquet(uri)) == [*range(10, 20), *range(30, 40)]
    assert audit_of(world, uri)[0] == 0


def check_archive_refuses_bad_input(world: World) -> None:
    """One clear error each, and what is there stays as it is."""
    topic, uri = filled(world, 300), f"{world.folder}/refusals"
    world.job(archive.main, topic, "--to", uri)
    before = state_of(uri)
    fails(lambda: world.job(archive.main, "no-such-topic", "--to", uri), "no topic no-such-topic")
    unreachable = ["--archive", uri, "--bootstrap", "127.0.0.1:9"]
    fails(lambda: audit.main.main(unreachable, standalone_mode=False), "no broker answers at 127.0.0.1:9")
    fails(lambda: world.job(archive.main, topic, "--to", uri, "--committed"), "without --committed")
    fails(lambda: world.job(replay.main, topic, "--from", f"{world.folder}", "--to", topic), "is no archive")
    changed(uri, lambda state: state.update(cluster="another"))
    fails(lambda: world.job(archive.main, topic, "--to", uri), "is the archive of cluster another")
    changed(uri, lambda state: state.update(before))
    changed(uri, lambda state: state["topics"][topic].update(id="AAAAAAAAAAAAAAAAAAAAAA"))
    fails(lambda: world.job(archive.main, topic, "--to", uri), "was deleted and created anew")
    changed(uri, lambda state: state.update(before))
    file = Path(uri, before["files"][0][0])
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    fails(lambda: audit_of(world, uri), "half written or changed")
    file.write_bytes(whole)
    world.spark.read.parquet(str(file)).withColumn("more", F.lit(1)).coalesce(1).write.parquet(f"{world.folder}/drift")
    [other] = Path(world.folder, "drift").glob("*.parquet")
    file.write_bytes(other.read_bytes())
    changed(uri, lambda state: state["files"].__setitem__(0, [before["files"][0][0], file.stat().st_size]))
    fails(lambda: audit_of(world, uri), "schema drift", "more")


def changed(uri: str, change: Any) -> None:
    """Tamper with the newest state."""
    state = state_of(uri)
    change(state)
    Path(uri, f"_kafkapy/state/{newest(uri):012d}.json").write_text(json.dumps(state))


def check_audit_finds_loss(world: World) -> None:
    """A record that is missing, one that is there twice, one that is different: each is named, and the exit code is 1."""
    topic, uri = filled(world, 300, 1), f"{world.folder}/loss"
    world.job(archive.main, topic, "--to", uri)
    rows = world.spark.read.parquet(uri).drop("topic", "date").persist()
    one = rows.where("offset = 5")
    harmed = rows.where("offset NOT IN (5, 6, 7)").unionByName(one).unionByName(one)
    harmed = harmed.unionByName(rows.where("offset = 6").withColumn("value", F.lit(b"other")))
    harmed.coalesce(1).write.parquet(f"{world.folder}/harmed")
    [new] = Path(world.folder, "harmed").glob("*.parquet")
    path = state_of(uri)["files"][0][0]
    Path(uri, path).write_bytes(new.read_bytes())
    changed(uri, lambda state: state.update(files=[[path, new.stat().st_size]]))
    code, printed = audit_of(world, uri)
    cells = printed.splitlines()[1].split()
    assert code == 1 and cells[-1] == "LOSS", printed
    assert cells[5:9] == ["1", "0", "1", "1"], printed  # missing, surplus, duplicates, differing


# Replay.


def check_replay_keeps_order_and_marks_records(world: World) -> None:
    """All of it, in order; headers say where each record came from; the same replay again sends nothing."""
    topic, uri, target = filled(world, 3000), f"{world.folder}/replayed", world.topic(3)
    world.job(archive.main, topic, "--to", uri)
    for _ in range(2):
        world.job(replay.main, topic, "--from", uri, "--to", target, "--slice", "300")
    sent = origins(world, target).orderBy("partition", "offset").collect()
    assert len(sent) == 3000
    assert all(row["from_partition"] == row["partition"] and row["from_offset"] == row["offset"] for row in sent)
    row = world.read(target, includeHeaders="true").where("offset = 0 AND partition = 0").first()
    assert [header["key"] for header in row["headers"]] == [
        "source",
        *(f"replay.{w}" for w in ("topic", "partition", "offset", "timestamp")),
    ]


def origins(world: World, topic: str) -> DataFrame:
    """Where each record of a target came from."""
    entry = F.map_from_entries(F.filter("headers", lambda h: h["key"].startswith("replay.")))
    rows = world.read(topic, includeHeaders="true").withColumn("origin", entry)
    numbers_ = [
        F.col("origin")[f"replay.{name}"].cast("string").cast("bigint").alias(f"from_{name}")
        for name in ("partition", "offset")
    ]
    return rows.select("partition", "offset", "key", "value", *numbers_)


def check_replay_of_a_part(world: World) -> None:
    """By time, offsets, key and header, by key into another number of partitions, paced."""
    topic, uri = filled(world, 1200), f"{world.folder}/part"
    world.job(archive.main, topic, "--to", uri)
    cases = {
        ("--since", "2023-11-15", "--until", "2023-11-16T12:00:00"): lambda v: v % 2 == 1,
        ("--offsets", "1:10-19"): lambda v: v % 3 == 1 and 10 <= v // 3 <= 19,
        ("--key", "^k7$", "--header", "source=check"): lambda v: v % 100 == 7,
    }
    for options, wanted in cases.items():
        target = world.topic(3)
        world.job(replay.main, topic, "--from", uri, "--to", target, *options)
        assert numbers(world.read(target)) == [v for v in range(1200) if wanted(v)], options
    single = world.topic(1)
    fails(lambda: world.job(replay.main, topic, "--from", uri, "--to", single), "--by-key")
    begun = time.monotonic()
    world.job(replay.main, topic, "--from", uri, "--to", single, "--by-key", "--rate", "400", "--offsets", "0:-")
    assert time.monotonic() - begun > 0.9
    assert world.read(single).count() == 400


def check_replay_resumes_after_kill_9(world: World) -> None:
    """A replay that was killed and is called again sends what has not arrived, each record once, in order."""
    topic, uri, target = filled(world, 30_000), f"{world.folder}/resumed", world.topic(3)
    world.job(archive.main, topic, "--to", uri)
    command = [replay.__file__, topic, "--from", uri, "--to", target, "--slice", "1500"]
    progress = Path(uri, f"_kafkapy/replays/{topic}-to-{target}.json")
    run_until(world, command, lambda: progress.exists() and json.loads(progress.read_text())["done"] >= 2, kill=True)
    partly = world.read(target).count()
    world.job(replay.main, topic, "--from", uri, "--to", target, "--slice", "1500")
    sent = origins(world, target)
    assert 0 < partly < 30_000 == sent.count() == sent.select("from_partition", "from_offset").distinct().count()
    assert sent.where("from_offset != offset").count() == 0


# Transform, split, stats.

EVENTS = "region string, amount int, at timestamp"


def with_events(world: World, count: int = 300) -> str:
    """A topic of JSON, regions in turn, a second apart."""
    topic = world.topic(2)
    for partition in (0, 1):
        rows = (
            {"region": ("eu", "us", "as")[v % 3], "amount": v, "at": f"2026-01-01T00:{v // 60:02d}:{v % 60:02d}Z"}
            for v in range(partition, count, 2)
        )
        world.produce(topic, (json.dumps(row).encode() for row in rows), partition, key=b"k")
    return topic


def check_transform_filters_and_projects(world: World) -> None:
    """SQL over the values' fields; more events later, from the checkpoint."""
    topic, target, checkpoint = with_events(world), world.topic(1), f"{world.folder}/large"
    command = [topic, "--to", target, "--checkpoint", checkpoint, "--schema", EVENTS, "--where", "v.amount >= 290"]
    command += ["--select", "v.region AS key, v.amount AS value"]
    for _ in range(2):
        world.job(transform.main, *command)
    assert numbers(world.read(target)) == list(range(290, 300))
    fails(lambda: world.job(transform.main, *command[:-2], "--select", "value"), "another sql")
    fails(lambda: world.job(transform.main, topic, "--to", topic, "--checkpoint", f"{checkpoint}2"), "flow into itself")


def check_transform_aggregates_by_event_time(world: World) -> None:
    """Windows are emitted once the watermark has passed them, each once."""
    topic, target, checkpoint = with_events(world), world.topic(1), f"{world.folder}/totals"
    sql = "SELECT window.start, v.region AS key, count(*) AS n FROM events GROUP BY window(event_time, '1 minute'), v.region"
    command = [topic, "--to", target, "--checkpoint", checkpoint, "--schema", EVENTS, "--sql", sql]
    world.job(transform.main, *command, "--time", "v.at", "--watermark", "10 seconds")
    rows = [json.loads(row["value"]) for row in world.read(target).collect()]
    assert len(rows) == 12 and {row["n"] for row in rows} == {20}, rows  # four minutes of five are over


def check_transform_tells_schema_drift(world: World) -> None:
    """A value of another form ends the job with its place, or goes where it is told to."""
    topic, target, rest = with_events(world, 20), world.topic(1), world.topic(1)
    world.produce(topic, [b"not json", b'{"region": "eu", "amount": "many"}'], 0)
    command = [topic, "--to", target, "--schema", EVENTS, "--select", "v.amount AS value"]
    fails(
        lambda: world.job(transform.main, *command, "--checkpoint", f"{world.folder}/drift-fails"),
        "schema drift",
        f"{topic}-0 offset 10",
    )
    assert world.read(target).count() <= 20, "what was written before stays"
    world.job(transform.main, *command, "--checkpoint", f"{world.folder}/drift-topic", "--bad", rest)
    assert sorted(bytes(row["value"]) for row in world.read(rest).collect()) == [
        b"not json",
        b'{"region": "eu", "amount": "many"}',
    ]


def check_split(world: World) -> None:
    """By rules, the first that is true, with the rest; and by an expression."""
    topic, eu, us, rest = with_events(world), world.topic(1), world.topic(1), world.topic(1)
    rules = ["--rule", f"{eu}=v.region = 'eu'", "--rule", f"{us}=v.region IN ('us', 'eu')", "--otherwise", rest]
    world.job(split.main, topic, *rules, "--schema", EVENTS, "--checkpoint", f"{world.folder}/split")
    found = [
        sorted(json.loads(row["value"])["amount"] for row in world.read(name).collect()) for name in (eu, us, rest)
    ]
    assert found == [list(range(turn, 300, 3)) for turn in range(3)]
    names = f"CASE v.region WHEN 'eu' THEN '{eu}' END"
    world.job(split.main, topic, "--by", names, "--schema", EVENTS, "--checkpoint", f"{world.folder}/split-by")
    assert world.read(eu).count() == 200


def check_stats(world: World) -> None:
    """From the broker, an archive and the segments the same numbers; to a topic, to Parquet, as a page of plots."""
    topic, target, uri = with_events(world), world.topic(1), f"{world.folder}/for-stats"
    world.job(archive.main, topic, "--to", uri)
    common = ["--window", "1 hour", "--schema", EVENTS, "--event-time", "v.at"]
    page, out = f"{world.folder}/stats.html", f"{world.folder}/stats"
    world.job(stats.main, topic, *common, "--to-topic", target, "--parquet", f"{out}-broker", "--html", page)
    world.job(stats.main, topic, *common, "--archive", uri, "--parquet", f"{out}-archive")
    sources = ["broker", "archive"]
    if world.data_folder is not None:
        eventually(lambda: segments(world, topic).count() == 300, "the high watermark is noted")
        world.job(stats.main, topic, *common, "--segments", str(world.data_folder), "--parquet", f"{out}-segments")
        sources.append("segments")
    found = [world.spark.read.parquet(f"{out}-{source}").orderBy("start").collect() for source in sources]
    assert all(rows == found[0] for rows in found)
    assert sum(row["records"] for row in found[0]) == 300 and found[0][0]["keys"] == 1 and found[0][0]["lag_ms_p50"] > 0
    written = [json.loads(row["value"])["records"] for row in world.read(target).collect()]
    assert sum(written) == 300
    text = Path(page).read_text()
    assert "<svg" in text and topic in text and urllib.parse.quote("<script") not in text


def check_commands_of_kafkapy(world: World) -> None:
    """`kafkapy archive` and `kafkapy audit` do the same, with kafkapy's own options and exit codes."""
    topic, uri = filled(world, 300), f"{world.folder}/by-command"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words, code in (
        (["archive", topic, "--to", uri], 0),
        (["audit", "--archive", uri], 0),
        (["archive", "nope", "--to", uri], 1),
    ):
        command = [sys.executable, "-m", "kafkapy", "-b", world.bootstrap, *words, "--master", "local[1]"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=5 * WAIT_S)
        assert done.returncode == code, done.stderr[-2000:]
    assert "error: no topic nope" in done.stderr and "Traceback" not in done.stderr
    exactly(world, topic, uri)
