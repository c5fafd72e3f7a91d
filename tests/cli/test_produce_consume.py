"""`kafkapy produce` and `kafkapy consume` against a broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.testing.broker import Broker
from tests.cli.runner import Result

Kafkapy = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def orders(broker: Broker) -> str:
    """A topic with three partitions."""
    broker.create_topic("orders", 3)
    return "orders"


def test_lines_become_values(kafkapy: Kafkapy, orders: str) -> None:
    """And come out again as lines; what was done is told on standard error."""
    result = kafkapy("produce", orders, stdin="a\nb\n")
    assert (result.code, result.out, result.err) == (0, "", "2 records to orders\n")
    assert sorted(kafkapy("consume", orders, "--exit").out.split()) == ["a", "b"]


def test_records_go_to_the_partition_that_kafkas_clients_choose(kafkapy: Kafkapy, orders: str) -> None:
    """murmur2 of the key, as Java's producer has it."""
    kafkapy("produce", orders, "-f", "%k:%v\\n", stdin="a:1\nb:2\nfoobar:3\n")
    lines = kafkapy("consume", orders, "--exit", "--format", "%p %k\\n").out.splitlines()
    assert sorted(lines) == ["0 foobar", "1 a", "2 b"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_whole_records_go_round_as_json(kafkapy: Kafkapy, broker: Broker, orders: str, codec: str) -> None:
    """Keys, values, headers, timestamps and partitions, null and binary ones too, in every compression."""
    broker.create_topic("copy", 3)
    records = [
        {
            "key": "k",
            "value": "v",
            "headers": [{"key": "h", "value": "x"}, {"key": "h", "value": None}],
            "timestamp": 5,
        },
        {"key": None, "value": None, "headers": [], "partition": 2, "timestamp": 6},
        {
            "key_base64": "/wA=",
            "value_base64": "gIA=",
            "headers": [{"key": "b", "value_base64": "/w=="}],
            "timestamp": 7,
        },
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    assert kafkapy("produce", orders, "--json", "-z", codec, stdin=text).code == 0
    first = kafkapy("consume", orders, "--exit", "--format", "json")
    assert kafkapy("produce", "copy", "--format", "json", stdin=first.out_bytes).code == 0
    second = kafkapy("consume", "copy", "--exit", "--format", "json")
    assert [{**row, "topic": orders} for row in second.json_lines] == first.json_lines
    found = sorted(first.json_lines, key=lambda row: row["timestamp"])
    for record, row in zip(records, found, strict=True):
        assert record.items() <= row.items()


def test_the_topic_may_stand_in_the_records(kafkapy: Kafkapy, broker: Broker) -> None:
    """In JSON or by %t; without any it is an error."""
    broker.create_topic("a")
    broker.create_topic("b")
    assert kafkapy("produce", "--json", stdin='{"topic": "a", "value": "1"}\n{"topic": "b", "value": "2"}\n').code == 0
    assert kafkapy("produce", "-f", "%t %v\\n", stdin="a 3\n").code == 0
    assert kafkapy("consume", "a", "--exit").out == "1\n3\n"
    assert kafkapy("produce", stdin="x\n").code == 1


def test_options_add_key_headers_and_partition(kafkapy: Kafkapy, orders: str) -> None:
    """A key of the record's own is stronger; -Z makes an empty value a tombstone."""
    kafkapy("produce", orders, "-k", "K", "-H", "a=1", "-H", "b:2", "-p", "2", "-Z", stdin="x\n\n")
    kafkapy("produce", orders, "-k", "K", "-p", "2", "--json", stdin='{"key": "own", "value": ""}\n')
    rows = kafkapy("consume", orders, "-p", "2", "--exit", "--format", "%k %V %h{%k=%v,}\\n").out.splitlines()
    assert rows == ["K 1 a=1,b=2,", "K -1 a=1,b=2,", "own 0 "]


def test_partitions_in_the_input_are_kept_or_chosen_anew(kafkapy: Kafkapy, orders: str) -> None:
    """--repartition goes by the key."""
    line = '{"key": "a", "value": "1", "partition": 0}\n'
    kafkapy("produce", orders, "--json", stdin=line)
    kafkapy("produce", orders, "--json", "--repartition", stdin=line)
    assert kafkapy("consume", orders, "--exit", "--format", "%p").out == "01"
    wrong = kafkapy("produce", orders, "--json", stdin='{"value": "1", "partition": 9}\n')
    assert wrong.code == 1 and "no partition 9" in wrong.err


def test_files_are_read_by_line_or_whole(kafkapy: Kafkapy, orders: str, tmp_path: Path) -> None:
    """Several one after another."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"a\nb")
    other.write_bytes(b"c\n")
    kafkapy("produce", orders, "-F", str(one), "-F", str(other), "-p", "0")
    assert kafkapy("consume", orders, "-p", "0", "--exit").out == "a\nb\nc\n"
    kafkapy("produce", orders, "-F", str(one), "-F", str(other), "--per", "file", "-p", "1")
    assert kafkapy("consume", orders, "-p", "1", "--exit", "--format", "%v|").out == "a\nb|c\n|"


def test_acknowledged_records_are_printed_when_wanted(kafkapy: Kafkapy, orders: str) -> None:
    """With the offsets that they got; with acks=0 nobody knows them."""
    kafkapy("produce", orders, "-p", "1", stdin="x\n")
    assert kafkapy("produce", orders, "-p", "1", "-o", "%t/%p@%o=%v\\n", stdin="y\n").out == "orders/1@1=y\n"
    (row,) = kafkapy("produce", orders, "-p", "1", "-o", "json", stdin="z\n").json_lines
    assert (row["offset"], row["value"]) == (2, "z")
    assert kafkapy("produce", orders, "-p", "1", "--acks", "0", stdin="z\n").code == 0


def test_what_came_before_bad_input_is_written(kafkapy: Kafkapy, orders: str) -> None:
    """Exit code 3, with the number of the record that makes no sense."""
    result = kafkapy("produce", orders, "-f", "%k=%v\\n", stdin="a=1\nb\n")
    assert result.code == 3 and "record 2" in result.err and "1 record" in result.err
    result = kafkapy("produce", orders, "--json", stdin="{\n")
    assert result.code == 1 and "line 1: no JSON" in result.err
    assert kafkapy("consume", orders, "--exit").out == "1\n"


@pytest.mark.parametrize(
    "args", [("-f", "plain"), ("-f", "%k%v"), ("-H", "x"), ("-o", "%q"), ("-p", "9"), ("-f", "%z")]
)
def test_options_that_make_no_sense_are_refused(kafkapy: Kafkapy, orders: str, args: tuple[str, ...]) -> None:
    """Before anything is read."""
    assert kafkapy("produce", orders, *args, stdin="x\n").code == 2


def test_a_missing_topic_is_an_error_before_input_is_read(kafkapy: Kafkapy) -> None:
    """Unless the broker may create it."""
    result = kafkapy("produce", "nope", stdin="x\n")
    assert result.code == 1 and "UNKNOWN_TOPIC_OR_PARTITION" in result.err
    assert kafkapy("produce", "nope", "--create", stdin="x\n").code == 0
    assert kafkapy("consume", "nope", "--exit").out == "x\n"


def test_a_refusal_tells_how_much_is_written(kafkapy: Kafkapy, broker: Broker) -> None:
    """A record that is too large stops the run; what was acknowledged stays."""
    broker.create_topic("small", 1, {"max.message.bytes": "1000"})
    result = kafkapy("produce", "small", "-X", "batch.size=1", stdin="a\n" + "x" * 2000 + "\nb\n")
    assert result.code == 3
    assert "MESSAGE_TOO_LARGE" in result.err and "1 records before it are written" in result.err


def test_a_batch_that_is_too_large_is_split(kafkapy: Kafkapy, broker: Broker) -> None:
    """Only a single record can be too large."""
    broker.create_topic("small", 1, {"max.message.bytes": "1000"})
    lines = [f"{number:0100d}" for number in range(50)]
    result = kafkapy("produce", "small", stdin="\n".join(lines))
    assert (result.code, result.err) == (0, "50 records to small\n")
    assert kafkapy("consume", "small", "--exit").out.splitlines() == lines


@pytest.fixture
def filled(kafkapy: Kafkapy, orders: str) -> str:
    """Ten records in partition 0, at the times 1000 to 10000, and one in partition 1 at 3500."""
    lines = [json.dumps({"value": str(n), "timestamp": 1000 + 1000 * n, "partition": 0}) + "\n" for n in range(10)]
    lines.append(json.dumps({"value": "x", "timestamp": 3500, "partition": 1}) + "\n")
    kafkapy("produce", orders, "--json", stdin="".join(lines))
    return orders


@pytest.mark.parametrize(
    ("args", "values"),
    [
        (("--exit",), "0123456789"),
        (("-o", "start", "-e"), "0123456789"),
        (("-o", "7", "-e"), "789"),
        (("-o", "+8", "-e"), "89"),
        (("-o", "-2", "-e"), "89"),
        (("-o", "2:5"), "234"),
        (("-o", "8:50"), "89"),
        (("-o", ":3"), "012"),
        (("-o", "-2:end"), "89"),
        (("-o", "end", "-e"), ""),
        (("-o", "@0000000004500:end"), "456789"),
        (("-o", "@0000000004000:0000000006000"), "34"),
        (("-n", "3"), "012"),
        (("-o", "5", "-n", "2"), "56"),
        (("--tail", "3"), "789"),
        (("--tail", "30", "-n", "2"), "01"),
    ],
)
def test_offsets_say_where_to_begin_and_to_end(
    kafkapy: Kafkapy, filled: str, args: tuple[str, ...], values: str
) -> None:
    """By number, time, start and end, ranges, tail and count; the exit code is 0."""
    result = kafkapy("consume", filled, "-p", "0", "--format", "%v", *args)
    assert (result.code, result.out) == (0, values)


def test_tail_is_over_all_partitions_in_the_order_of_time(kafkapy: Kafkapy, filled: str) -> None:
    """As one would expect of the last N records of a topic."""
    assert kafkapy("consume", filled, "--tail", "8", "--format", "%v").out == "x3456789"


def test_an_offset_beyond_the_end_is_an_error(kafkapy: Kafkapy, filled: str) -> None:
    """With the offsets that there are; one that was deleted is skipped with a note."""
    result = kafkapy("consume", filled, "-p", "0", "-o", "11", "-n", "1")
    assert result.code == 1 and "OFFSET_OUT_OF_RANGE: orders-0 holds offsets 0 to 10" in result.err
    kafkapy("topic", "trim", filled, "-p", "0", "-o", "8", "--yes")
    result = kafkapy("consume", filled, "-p", "0", "-o", "2", "--exit", "--format", "%v")
    assert result.out == "89" and "offsets 2 to 7 have been deleted" in result.err


@pytest.mark.parametrize(
    "args", [("-o", "soon"), ("--tail", "1", "-o", "1"), ("-e", "-f"), ("--format", "x"), ("--format", "%q")]
)
def test_wrong_questions_are_refused(kafkapy: Kafkapy, orders: str, args: tuple[str, ...]) -> None:
    """Exit code 2."""
    assert kafkapy("consume", orders, *args).code == 2


def test_unknown_topics_and_partitions_are_errors(kafkapy: Kafkapy, orders: str) -> None:
    """Exit code 1, nothing is created."""
    assert kafkapy("consume", "nope", "--exit").code == 1
    assert "no 7" in kafkapy("consume", orders, "-p", "7", "--exit").err
    assert kafkapy("consume", "no.*", "--regex", "--exit").code == 1
    assert kafkapy("topic", "list").out == "orders\t3\t1\n"


def test_values_that_are_no_number_are_told(kafkapy: Kafkapy, filled: str) -> None:
    """A modifier that does not fit what is there."""
    result = kafkapy("consume", filled, "--exit", "--format", "%v{big32}\\n")
    assert result.code == 2 and "shows 4 bytes as a number" in result.err


def test_many_batches_and_partitions_arrive_completely(kafkapy: Kafkapy, orders: str) -> None:
    """More than a fetch or a request holds."""
    lines = [str(number) for number in range(30_000)]
    result = kafkapy("produce", orders, "-X", "batch.size=20000", stdin="\n".join(lines))
    assert result.err == "30000 records to orders\n"
    options = ("-X", "max.partition.fetch.bytes=30000", "-X", "fetch.max.bytes=50000")
    assert sorted(kafkapy("consume", orders, "--exit", *options).out.split(), key=int) == lines


def test_long_work_shows_its_progress_at_a_terminal(kafkapy: Kafkapy, orders: str, tmp_path: Path) -> None:
    """On standard error, and not for what is quick or has no end."""
    path = tmp_path / "lines"
    path.write_text("x\n" * 10_000)
    shown = kafkapy("produce", orders, "--file", str(path), terminal=True).err
    assert "produce" in shown and "kB" in shown
    assert kafkapy("produce", orders, "--file", str(path)).err == "10000 records to orders\n"
    # Records on the same terminal would run into the bar.
    assert kafkapy("consume", orders, "-n", "20000", terminal=True).err == ""


def process(broker: Broker, *args: str, **options: object) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "KAFKAPY_BOOTSTRAP": broker.bootstrap}
    return subprocess.Popen(
        [sys.executable, "-m", "kafkapy", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        **options,  # type: ignore[call-overload]
    )


@pytest.mark.slow
def test_following_shows_what_comes_until_it_is_interrupted(kafkapy: Kafkapy, broker: Broker, filled: str) -> None:
    """Ctrl-C ends it quietly with 130."""
    with process(broker, "consume", filled, "--tail", "1", "-f") as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        assert consumer.stdout.readline() == b"9\n"
        kafkapy("produce", filled, stdin="new\n")
        assert consumer.stdout.readline() == b"new\n"
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(10) == 130
        assert consumer.stderr.read() == b""


@pytest.mark.slow
def test_a_closed_pipe_ends_the_consumer_quietly(broker: Broker, filled: str, kafkapy: Kafkapy) -> None:
    """As in `kafkapy consume ... | head`."""
    kafkapy("produce", filled, stdin="x\n" * 50_000)
    with process(broker, "consume", filled) as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        consumer.stdout.readline()
        consumer.stdout.close()
        assert consumer.wait(10) == 141
        assert consumer.stderr.read() == b""


@pytest.mark.slow
def test_a_line_is_written_before_the_next_is_waited_for(kafkapy: Kafkapy, broker: Broker, orders: str) -> None:
    """A producer at the end of a slow pipe does not sit on what it has."""
    with process(broker, "produce", orders, "-o", "%v\\n", stdin=subprocess.PIPE) as producer:
        assert producer.stdin is not None and producer.stdout is not None
        producer.stdin.write(b"first\n")
        producer.stdin.flush()
        assert producer.stdout.readline() == b"first\n"
        producer.stdin.close()
        assert producer.wait(10) == 0
