"""`kafkapy topic` against a broker."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from kafkapy.cli.terminal import confirm
from tests.cli.runner import Result, run

Kafkapy = Callable[..., Result]


def test_creating_tells_what_became_of_each_topic(kafkapy: Kafkapy) -> None:
    """Some may fail: the exit code is 3 and standard error has the reason; all failed is 1."""
    assert kafkapy("topic", "create", "a", "-p", "2").code == 0
    result = kafkapy("topic", "create", "a", "b", "-p", "2", "--format", "json")
    assert result.code == 3
    rows = {row["topic"]: row for row in result.json}
    assert (rows["b"]["status"], rows["b"]["partitions"], rows["b"]["message"]) == ("ok", 2, None)
    assert rows["a"]["status"] == "TOPIC_ALREADY_EXISTS"
    assert "error: TOPIC_ALREADY_EXISTS" in result.err and "hint: `kafkapy topic create --if-not-exists`" in result.err
    assert kafkapy("topic", "create", "a").code == 1
    assert kafkapy("topic", "create", "a", "--if-not-exists").code == 0


def test_a_dry_run_changes_nothing(kafkapy: Kafkapy) -> None:
    """It only asks."""
    assert "would be created" in kafkapy("topic", "create", "a", "--dry-run").out
    assert kafkapy("topic", "list").out == ""
    assert kafkapy("topic", "create", "a", "-c", "retention.ms=soon", "--dry-run").code == 1


def test_settings_are_given_at_creation_changed_and_taken_back(kafkapy: Kafkapy) -> None:
    """Through create, config set, config get and config unset, the topic before or behind the verb."""
    kafkapy("topic", "create", "a", "b", "-c", "retention.ms=1000", "-c", "cleanup.policy=compact")
    assert kafkapy("topic", "config", "get", "a").out == "cleanup.policy\tcompact\ttopic\nretention.ms\t1000\ttopic\n"
    assert kafkapy("topic", "config", "a", "set", "retention.ms=2000").code == 0
    assert kafkapy("topic", "config", "get", "a", "retention.ms").out == "retention.ms\t2000\ttopic\n"
    assert kafkapy("topic", "config", "unset", "a,b", "retention.ms").out == "a\tok\nb\tok\n"
    (row,) = kafkapy("topic", "config", "get", "a", "retention.ms", "--format", "json").json
    assert (row["value"], row["source"], row["type"]) == ("604800000", "default", "long")
    assert len(kafkapy("topic", "config", "get", "a", "--all").out.splitlines()) > 20


def test_wrong_settings_are_errors(kafkapy: Kafkapy) -> None:
    """Of the broker, and of the command line."""
    kafkapy("topic", "create", "a")
    result = kafkapy("topic", "config", "set", "a", "retention.ms=soon")
    assert result.code == 1 and "INVALID_CONFIG" in result.err and "retention.ms" in result.err
    assert kafkapy("topic", "config", "set", "a", "retention.ms").code == 2
    assert kafkapy("topic", "config", "get", "a", "no.such.key").code == 2
    assert kafkapy("topic", "config", "set", "a", "retention.ms=5", "--dry-run").out == "a\twould be changed\n"
    assert kafkapy("topic", "config", "get", "a").out == ""


def test_lists_have_sizes_and_rates(kafkapy: Kafkapy) -> None:
    """Patterns match whole names; internal topics only when asked for."""
    kafkapy("topic", "create", "orders", "order", "users", "-p", "2")
    kafkapy("produce", "orders", stdin="x\n")
    assert kafkapy("topic", "list").out == "order\t2\t1\norders\t2\t1\nusers\t2\t1\n"
    assert kafkapy("topic", "list", "order.").out == "orders\t2\t1\n"
    (row,) = kafkapy("topic", "list", "orders", "--size", "--rate", "0.01", "--format", "json").json
    assert row["size"] > 60 and row["rate"] == 0 and row["internal"] is False
    assert kafkapy("topic", "list", "(").code == 2
    assert kafkapy("topic", "list", "nope").code == 1


def test_descriptions_have_parts(kafkapy: Kafkapy) -> None:
    """Summary, settings and partitions; or only what is asked for."""
    kafkapy("topic", "create", "a", "-p", "2", "-c", "retention.ms=1000")
    kafkapy("produce", "a", "-p", "1", stdin="x\ny\n")
    (whole,) = kafkapy("topic", "describe", "a", "--format", "json").json
    assert (whole["partition_count"], whole["replicas"], whole["internal"]) == (2, 1, False)
    assert whole["configs"] == [{"key": "retention.ms", "value": "1000", "source": "topic"}]
    ends = [(row["partition"], row["start"], row["end"], row["problem"]) for row in whole["partitions"]]
    assert ends == [(0, 0, 0, None), (1, 0, 2, None)]
    assert kafkapy("topic", "describe", "a", "-c").out == "topic\ta\n\nretention.ms\t1000\ttopic\n"
    assert "retention" not in kafkapy("topic", "describe", "a", "-s").out
    assert "flush.ms" in kafkapy("topic", "describe", "a", "-c", "-a").out
    assert kafkapy("topic", "describe", ".*", "-r", "--unhealthy").out == ""
    table = kafkapy("topic", "describe", "a", terminal=True, env={"NO_COLOR": "1"}).out
    assert (
        "PARTITION  LEADER  REPLICAS  ISR  START  END  PROBLEM\n        0       1  1         1        0    0  -"
        in table
    )


def test_an_unknown_topic_has_a_next_step(kafkapy: Kafkapy) -> None:
    """The error's name, its cause, and what to do."""
    result = kafkapy("topic", "describe", "nope")
    assert (result.code, result.out) == (1, "")
    assert "UNKNOWN_TOPIC_OR_PARTITION: topic nope" in result.err
    assert "hint: `kafkapy topic list`" in result.err


def test_topics_grow_but_do_not_shrink(kafkapy: Kafkapy) -> None:
    """To a total."""
    kafkapy("topic", "create", "a", "-p", "2")
    assert kafkapy("topic", "grow", "a", "--to", "4").out == "a\t4\tok\n"
    result = kafkapy("topic", "grow", "a", "--to", "3")
    assert result.code == 1 and "INVALID_PARTITIONS" in result.err


@pytest.mark.parametrize("command", [("topic", "delete", "a"), ("topic", "trim", "a", "-o", "end")])
def test_nothing_is_destroyed_without_consent(kafkapy: Kafkapy, command: tuple[str, ...]) -> None:
    """Where nobody can answer --yes must say it."""
    kafkapy("topic", "create", "a")
    kafkapy("produce", "a", stdin="x\n")
    result = kafkapy(*command)
    assert result.code == 2 and "--yes" in result.err
    assert kafkapy("consume", "a", "--exit").out == "x\n"


def test_topics_are_deleted_by_name_and_by_pattern(kafkapy: Kafkapy) -> None:
    """A pattern that matches nothing is an error."""
    kafkapy("topic", "create", "a", "b1", "b2", "c")
    assert kafkapy("topic", "delete", "a", "--yes").out == "a\tdeleted\n"
    assert kafkapy("topic", "delete", "b.", "-r", "--yes").out == "b1\tdeleted\nb2\tdeleted\n"
    assert kafkapy("topic", "delete", "b.", "-r", "--yes").code == 1
    assert kafkapy("topic", "delete", "a", "c", "--yes").code == 3
    assert kafkapy("topic", "list").out == ""


def test_trimming_deletes_the_oldest_records(kafkapy: Kafkapy) -> None:
    """By any offset; partitions that begin later or end before are left alone."""
    kafkapy("topic", "create", "a", "-p", "2")
    kafkapy("produce", "a", "-p", "0", stdin="0\n1\n2\n3\n")
    kafkapy("produce", "a", "-p", "1", stdin="0\n")
    assert kafkapy("topic", "trim", "a", "-o", "2", "--yes").out == "a\t0\t2\ttrimmed\na\t1\t0\tunchanged\n"
    assert kafkapy("topic", "trim", "a", "-o", "-1", "-p", "0", "--yes").out == "a\t0\t3\ttrimmed\n"
    assert kafkapy("topic", "trim", "a", "-o", "1", "-p", "0", "--yes").out == "a\t0\t3\tunchanged\n"
    assert kafkapy("topic", "trim", "a", "-o", "end", "-p", "7", "--yes").code == 1
    assert kafkapy("topic", "trim", "a", "-o", "1:2", "--yes").code == 2
    assert kafkapy("topic", "trim", "a", "-o", "soon", "--yes").code == 2
    assert kafkapy("consume", "a", "-p", "0", "--exit").out == "3\n"


def test_no_broker_is_told_in_one_line_with_what_to_do() -> None:
    """Exit code 4."""
    result = run("topic", "list", "-b", "127.0.0.1:1")
    assert (result.code, result.out) == (4, "")
    assert result.err.startswith("error: no broker at 127.0.0.1:1 (connection refused); start one with `kafkapy start`")
    assert result.err.count("\n") == 1


def test_an_address_that_is_none_is_wrong_usage() -> None:
    """Before anything is connected."""
    assert run("topic", "list", "-b", "localhost:http").code == 2


def test_a_traceback_only_with_debug() -> None:
    """For those who look for our mistakes."""
    assert "Traceback" in run("--debug", "topic", "list", "-b", "127.0.0.1:1").err
    assert "Traceback" in run("topic", "list", "-b", "127.0.0.1:1", "--debug").err


@pytest.mark.parametrize(("answer", "goes_on"), [("y", True), ("n", False), ("", False)])
def test_a_person_at_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, answer: str, goes_on: bool) -> None:
    """On standard error, and no answer is no."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: answer)
    if goes_on:
        confirm("Delete a?", yes=False)
    else:
        with pytest.raises(click.Abort):
            confirm("Delete a?", yes=False)
