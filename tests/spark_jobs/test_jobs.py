"""What the jobs decide without Spark: states, ranges, slices, options, plots."""

from __future__ import annotations

import datetime
import re

import click
import pytest

from spark_jobs import archive, audit, replay, split, transform
from spark_jobs.archive_files import State, TopicState, check_same
from spark_jobs.cluster import Topic
from spark_jobs.plots import page
from spark_jobs.session import JobError, client_options, one_line


def state(**until: int) -> State:
    """An archive of the topic t."""
    partitions = {int(name[1:]): offset for name, offset in until.items()}
    return State(3, "cluster", False, {"t": TopicState("id", dict.fromkeys(partitions, 0), partitions)})


def test_a_state_survives_being_stored() -> None:
    """What is read is what was written; anything else is refused in one line."""
    before = state(p0=5)
    before.files = {"topic=t/date=2026-11-18/batch-000000000001-00000.parquet": 12}
    before.topics["t"].gaps.append([0, 1, 2])
    assert State.from_json(before.to_json(), "here") == before
    for damage in ({}, {"version": 2}, {**before.to_json(), "topics": None}, []):
        with pytest.raises(JobError, match="here"):
            State.from_json(damage, "here")


def test_an_archive_belongs_to_one_cluster_and_one_topic() -> None:
    """Another cluster's, or a topic that was created anew, is not mixed in."""
    same = Topic("t", "id", (0,))
    check_same(state(p0=5), "cluster", [same, Topic("new", "other", (0,))], "uri")
    with pytest.raises(JobError, match="cluster cluster, this one is other"):
        check_same(state(p0=5), "other", [same], "uri")
    with pytest.raises(JobError, match="deleted and created anew"):
        check_same(state(p0=5), "cluster", [Topic("t", "later", (0,))], "uri")


def test_a_run_begins_where_the_archive_ends() -> None:
    """Known partitions go on, new ones begin at their start; loss is an error unless allowed, and is noted then."""
    known = state(p0=5)
    assert archive.starting_offsets(known, {"t": {0: 0, 1: 7}}, {"t": {0: 9, 1: 9}}, False) == {"t": {0: 5, 1: 7}}
    assert known.topics["t"].first == {0: 0, 1: 7}
    with pytest.raises(JobError, match="offsets 5 to 7 of t-0 were deleted"):
        archive.starting_offsets(state(p0=5), {"t": {0: 8}}, {"t": {0: 9}}, False)
    lossy = state(p0=5)
    assert archive.starting_offsets(lossy, {"t": {0: 8}}, {"t": {0: 9}}, True) == {"t": {0: 8}}
    assert lossy.topics["t"].gaps == [[0, 5, 8]]
    with pytest.raises(JobError, match="ends at offset 3, before 5"):
        archive.starting_offsets(state(p0=5), {"t": {0: 0}}, {"t": {0: 3}}, True)


def test_small_files_are_merged_where_there_are_several() -> None:
    """Per folder; large ones and single ones are left alone."""
    files = {"a/1": 10, "a/2": 20, "a/3": 90, "b/1": 10}
    assert archive.small_files(files, 100) == {"a": ["a/1", "a/2"]}


def test_slices_cover_every_offset_once() -> None:
    """Partitions of different lengths end at different turns."""
    pieces = list(replay.slices({0: (5, 25), 1: (0, 8), 2: (3, 3)}, 10))
    assert pieces == [{0: (5, 15), 1: (0, 8)}, {0: (15, 25)}]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("1700000000000", 1_700_000_000_000), ("1970-01-02", 86_400_000), ("1970-01-01T01:00+01:00", 0), (None, None)],
)
def test_times_are_told_in_several_ways(text: str | None, milliseconds: int | None) -> None:
    """UTC unless it says otherwise."""
    param = click.Option(["--since"])
    assert replay.moment(click.Context(replay.main), param, text) == milliseconds


def test_options_of_the_wrong_form_are_refused() -> None:
    """Before anything runs."""
    ctx, param = click.Context(replay.main), click.Option(["--x"])
    assert replay.offset_ranges(ctx, param, ("0:5-9", "1:-", "2:7-")) == [
        [0, 5, 9],
        [1, 0, 2**63 - 1],
        [2, 7, 2**63 - 1],
    ]
    assert replay.header_pairs(ctx, param, ("a=b=c",)) == [["a", "b=c"]]
    for call in (
        lambda: replay.moment(ctx, param, "yesterday"),
        lambda: replay.offset_ranges(ctx, param, ("5-9",)),
        lambda: replay.header_pairs(ctx, param, ("a",)),
        lambda: split.rules_of(["topic"]),
        lambda: transform.query_of("SELECT 1", "a", None),
        lambda: client_options("b", ["x"]),
    ):
        with pytest.raises(click.ClickException):
            call()


def test_rules_and_queries_are_read() -> None:
    """The first = of a rule ends the topic's name."""
    assert split.rules_of(["eu=v.region = 'eu'"]) == [("eu", "v.region = 'eu'")]
    assert transform.query_of(None, "a AS key", "a > 1") == "SELECT a AS key FROM events WHERE a > 1"
    assert client_options("b:1", ["ssl.x=1"], True) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.ssl.x": "1",
        "kafka.isolation.level": "read_committed",
    }


def test_verdicts_say_what_is_loss() -> None:
    """What retention or compaction took from the topic since is none."""
    fine = audit.Verdict("t", 0, 0, 10, 10, 10, 0, 0, 0, 0, 3, 0)
    assert (fine.is_loss, fine.word) == (False, "ok")
    assert fine._replace(surplus=1).word == "surplus"
    assert all(fine._replace(**{name: 1}).is_loss for name in ("missing", "duplicates", "differing"))
    lines = audit.table([fine, fine._replace(missing=1)]).splitlines()
    assert len(lines) == 3 and lines[1].endswith("ok") and lines[2].endswith("LOSS")


def test_errors_become_one_line() -> None:
    """The sentence that says what is wrong, from under a traceback."""
    text = 'An exception was thrown\nTraceback (most recent call last):\n  File "x", line 1\nspark_jobs.log_folder.LogFolderError: no topic x in y'
    assert one_line(ValueError(text)) == "no topic x in y"
    assert one_line(ValueError("plain\n  at java")) == "plain"
    assert one_line(ValueError()) == "ValueError"


def test_plots_are_one_page_that_needs_nothing() -> None:
    """A section per topic, what is unknown is left out, names are escaped."""
    columns = [f"{name}_{part}" for name in ("size", "late_ms", "lag_ms") for part in ("p50", "p99", "max")]
    row = {"topic": "<t>", "start": datetime.datetime(2026, 11, 18), "records_s": 1.5, "bytes_s": 9.0, "keys": 3}
    row |= dict.fromkeys(columns, 7) | {name: None for name in columns if name.startswith("lag")}
    later = {**row, "start": datetime.datetime(2026, 11, 18, 1), "records_s": 3.0}
    text = page([row, later], "1 hour")
    assert "&lt;t&gt;" in text and "<t>" not in text
    assert text.count("<svg") == 5 and "Lag from event" not in text
    assert not re.search(r"(src|href)=", text)
