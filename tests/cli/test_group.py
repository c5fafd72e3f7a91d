"""`kafkapy group` against a broker: groups that are only offsets, and groups of real consumers of both protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import confluent_kafka
import pytest

from kafkapy.client.groups import assigned_partitions, commit_offsets, coordinator_of, list_groups
from kafkapy.testing.broker import Broker
from kafkapy.types import TopicPartition
from tests.cli.runner import Result, run

Kafkapy = Callable[..., Result]

LINES = "a\nb\nc\nd\n"
JOIN_TIMEOUT_S = 15.0


@pytest.fixture
def filled(broker: Broker, kafkapy: Kafkapy) -> Iterator[Broker]:
    """Four records in t-0 and two in t-1, and no groups."""
    broker.create_topic("t", 2)
    with broker.client() as client:
        names = [one.group for one in list_groups(client)]
    assert not names or kafkapy("group", "delete", *names, "--yes").code == 0
    kafkapy("produce", "t", "-p", "0", stdin=LINES)
    kafkapy("produce", "t", "-p", "1", stdin="e\nf\n")
    yield broker


@pytest.fixture
def group(filled: Broker) -> str:
    """Has read three records of t-0 and all of t-1."""
    with filled.client() as client:
        results = commit_offsets(client, "g", {TopicPartition("t", 0): 3, TopicPartition("t", 1): 2})
    assert set(results.values()) == {None}
    return "g"


def offsets(kafkapy: Kafkapy, group: str = "g") -> list[int]:
    """What the group has committed, by topic and partition."""
    (found,) = kafkapy("group", "describe", group, "--format", "json").json
    return [row["committed"] for row in found["partitions"]]


def test_groups_are_listed_with_their_lag(kafkapy: Kafkapy, group: str) -> None:
    """Filters are the broker's; without --lag nothing is asked about offsets."""
    (row,) = kafkapy("group", "list", "--lag", "--format", "json").json
    assert row == {
        "group": "g",
        "coordinator": 1,
        "state": "Empty",
        "type": "classic",
        "protocol_type": "",
        "lag": 1,
    }
    assert kafkapy("group", "list").out == "g\t1\tEmpty\tclassic\n"
    assert kafkapy("group", "list", "--state", "stable").out == ""
    assert kafkapy("group", "list", "--type", "Classic", "-s", "EMPTY").out.startswith("g\t")
    assert kafkapy("group", "list", "--type", "consumer").out == ""
    assert kafkapy("group", "list", "--state", "odd").code == 2


def test_a_group_is_shown_partition_by_partition(kafkapy: Kafkapy, group: str) -> None:
    """An unknown one beside it is an error of its own."""
    result = kafkapy("group", "describe", "g", "nobody", "--format", "json")
    (found,) = result.json
    assert (found["state"], found["type"], found["lag"], found["member_count"]) == ("Empty", "classic", 1, 0)
    assert [(row["committed"], row["end"], row["lag"]) for row in found["partitions"]] == [(3, 4, 1), (2, 2, 0)]
    assert result.code == 3 and "GROUP_ID_NOT_FOUND" in result.err and "kafkapy group list" in result.err
    assert kafkapy("group", "describe", "nobody").code == 1
    assert "t\t0\t3\t4\t1\t-\t-\n" in kafkapy("group", "describe", "g").out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--to", "start"), [0, 0]),
        (("--to", "end"), [4, 2]),
        (("--to", "1"), [1, 1]),
        (("--to", "3"), [3, 2]),
        (("--to", "@now"), [4, 2]),
        (("--to", "@2001-01-01"), [0, 0]),
        (("--shift", "-2"), [1, 0]),
        (("--shift", "+1"), [4, 2]),
        (("--to", "start", "-p", "0"), [0, 2]),
        (("--to", "0", "-t", "t", "-p", "1"), [3, 0]),
    ],
)
def test_a_group_is_sent_anywhere(options: tuple[str, ...], expected: list[int], kafkapy: Kafkapy, group: str) -> None:
    """By offset, time, start, end and steps; never to where there is nothing."""
    result = kafkapy("group", "seek", "g", *options, "--yes")
    assert result.code == 0, result.err
    assert offsets(kafkapy) == expected


def test_a_seek_shows_before_it_does(kafkapy: Kafkapy, group: str) -> None:
    """A dry run changes nothing, and without a terminal or --yes nothing happens either."""
    table = "t\t0\t3\t0\nt\t1\t2\t0\n"
    dry = kafkapy("group", "seek", "g", "--to", "start", "--dry-run")
    assert (dry.code, dry.out, dry.err) == (0, table, "nothing was changed\n")
    unasked = kafkapy("group", "seek", "g", "--to", "start")
    assert (unasked.code, unasked.out) == (2, table) and "--yes" in unasked.err
    assert offsets(kafkapy) == [3, 2]
    clamped = kafkapy("group", "seek", "g", "--to", "9", "--dry-run", "--format", "json")
    assert [(row["prior"], row["new"]) for row in clamped.json] == [(3, 4), (2, 2)]
    assert "t-0 has no offset 9; taking 4" in clamped.err


def test_a_person_is_asked(kafkapy: Kafkapy, group: str) -> None:
    """At a terminal the answer decides."""
    with mock.patch("kafkapy.cli.group.seek.confirm", side_effect=KeyboardInterrupt) as asked:
        assert kafkapy("group", "seek", "g", "--to", "start").code == 130
    asked.assert_called_once_with("Set these offsets of g?", False)
    assert offsets(kafkapy) == [3, 2]


def test_a_group_goes_where_another_is_or_where_a_file_says(kafkapy: Kafkapy, group: str, tmp_path: Path) -> None:
    """A group that does not exist yet is made that way."""
    assert kafkapy("group", "seek", "h", "--to-group", "g", "--yes").out == "t\t0\t-\t3\nt\t1\t-\t2\n"
    assert offsets(kafkapy, "h") == [3, 2]
    file = tmp_path / "offsets"
    file.write_text("t 0 1\n\nt,1,0\n")
    assert kafkapy("group", "seek", "g", "--to-file", str(file), "--yes").code == 0
    assert offsets(kafkapy) == [1, 0]
    assert kafkapy("group", "seek", "g", "--to-file", str(file), "-p", "1", "--dry-run").out == "t\t1\t0\t0\n"
    file.write_text("t zero 1\n")
    wrong = kafkapy("group", "seek", "g", "--to-file", str(file), "--yes")
    assert wrong.code == 2 and ":1:" in wrong.err
    assert "group nobody has no offsets" in kafkapy("group", "seek", "g", "--to-group", "nobody", "--yes").err


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ((), 2, "say one of"),
        (("--to", "start", "--shift", "1"), 2, "say one of"),
        (("--to", "+3"), 2, "--shift"),
        (("--to", "1:2"), 2, "range"),
        (("--to", "soon"), 2, "no place"),
        (("--to", "start", "-t", "t", "-p", "7"), 1, "no partition 7"),
        (("--to", "start", "-t", "nothing"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_wrong_seeks_are_refused(options: tuple[str, ...], code: int, told: str, kafkapy: Kafkapy, group: str) -> None:
    """With what is right."""
    result = kafkapy("group", "seek", "g", *options, "--yes")
    assert result.code == code and told in result.err
    assert offsets(kafkapy) == [3, 2]


def test_an_unknown_group_needs_a_topic(kafkapy: Kafkapy, filled: Broker) -> None:
    """It has no offsets that could be moved."""
    assert "--topic" in kafkapy("group", "seek", "new", "--to", "start", "--yes").err
    assert "nothing to shift" in kafkapy("group", "seek", "new", "--shift", "1", "-t", "t", "--yes").err
    assert kafkapy("group", "seek", "new", "--to", "end", "-t", "t", "--yes").code == 0
    assert offsets(kafkapy, "new") == [4, 2]


def test_offsets_are_forgotten(kafkapy: Kafkapy, group: str) -> None:
    """Of one partition, then of the topic; the group has gone with the last of them."""
    where = ("group", "offset-delete", "g", "-t", "t")
    assert kafkapy(*where).code == 2
    assert kafkapy(*where, "-p", "0", "--yes").out == "t\t0\t3\tdeleted\n"
    assert offsets(kafkapy) == [2]
    again = kafkapy(*where, "-p", "0", "--yes")
    assert again.code == 1 and "has no such offsets" in again.err
    assert kafkapy(*where, "--yes").code == 0
    assert "GROUP_ID_NOT_FOUND" in kafkapy("group", "offset-delete", "nobody", "-t", "t", "--yes").err


def test_groups_are_deleted(kafkapy: Kafkapy, group: str) -> None:
    """What does not exist cannot be deleted, which does not keep the others."""
    assert kafkapy("group", "delete", "g").code == 2
    result = kafkapy("group", "delete", "g", "nobody", "--yes")
    assert result.code == 3 and result.out == "g\tdeleted\nnobody\tGROUP_ID_NOT_FOUND\n"
    assert kafkapy("group", "list").out == ""


def test_assignments_are_read_as_consumers_write_them() -> None:
    """None yet, one of the first version, and one of a version that has more to say."""
    assigned = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\3" + b"\0\0\0\5" + b"\xff\xff\xff\xff"
    given = (TopicPartition("t", 3), TopicPartition("t", 5))
    assert assigned_partitions(b"") == ()
    assert assigned_partitions(b"\0\0" + assigned) == given
    assert assigned_partitions(b"\0\3" + assigned + b"more") == given


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[Broker]:
    """Groups settle at once."""
    config = {"group.initial.rebalance.delay.ms": "0", "group.consumer.heartbeat.interval.ms": "200"}
    config["group.consumer.min.heartbeat.interval.ms"] = "200"
    with Broker(topics={"t": 2}, config=config) as broker:
        yield broker


@contextmanager
def consuming(bootstrap: str, group: str, protocol: str) -> Iterator[None]:
    """A consumer that has read three records and committed, and stays."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "client.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe(["t"])
        assert len(consumer.consume(3, JOIN_TIMEOUT_S)) == 3
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_at_work_is_shown_and_left_alone(quick_broker: Broker, protocol: str) -> None:
    """Members with their partitions in both protocols; what would pull the rug from under them is refused in words."""

    def kafkapy(*args: str, **options: str) -> Result:
        return run(*args, env={"KAFKAPY_BOOTSTRAP": quick_broker.bootstrap}, **options)

    kafkapy("produce", "t", "-p", "0", stdin=LINES)
    with consuming(quick_broker.bootstrap, protocol, protocol):
        (found,) = kafkapy("group", "describe", protocol, "--format", "json").json
        assert (found["state"], found["type"], found["member_count"]) == ("Stable", protocol, 1)
        assert found["assignor"] == ("range" if protocol == "classic" else "uniform")
        assert (found["epoch"] is None) == (protocol == "classic")
        (member,) = found["members"]
        assert member["client_id"] == "reader" and member["host"] == "127.0.0.1"
        assert member["assignment"] == ["t:0", "t:1"]
        assert found["partitions"][0]["committed"] == 3 and found["partitions"][0]["client_id"] == "reader"
        assert kafkapy("group", "list", "--state", "Stable").out == f"{protocol}\t1\tStable\t{protocol}\n"
        refused = kafkapy("group", "seek", protocol, "--to", "start", "--yes")
        assert refused.code == 1 and "UNKNOWN_MEMBER_ID: the group is not empty" in refused.err
        kept = kafkapy("group", "delete", protocol, "--yes")
        assert kept.code == 1 and "NON_EMPTY_GROUP" in kept.err and "hint:" in kept.err
        read = kafkapy("group", "offset-delete", protocol, "-t", "t", "--yes")
        assert read.code == 1 and "GROUP_SUBSCRIBED_TO_TOPIC" in read.err
    assert kafkapy("group", "seek", protocol, "--to", "start", "--yes").code == 0


def test_every_group_has_a_coordinator(filled: Broker) -> None:
    """Also one that does not exist."""
    with filled.client() as client:
        assert coordinator_of(client, "anything") == 1
