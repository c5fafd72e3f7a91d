"""kcat: list, produce, consume, query, groups, transactions' isolation, JSON."""

from __future__ import annotations

import json
import subprocess

import pytest

from compat_tests import tools


@pytest.fixture
def kcat(bootstrap: str):
    """Runs kcat against the target and gives its output."""
    program = tools.program("kcat", "apt-get install kcat")
    return lambda *arguments, stdin="": tools.run(
        [program, "-b", bootstrap, "-q", *arguments], stdin=stdin, timeout_s=30
    )


def test_list(kcat, topic: str) -> None:
    """-L shows brokers, topics, partitions."""
    found = json.loads(kcat("-L", "-J"))
    assert [broker["id"] for broker in found["brokers"]] == [1]
    (mine,) = [one for one in found["topics"] if one["topic"] == topic]
    assert [(p["partition"], p["leader"]) for p in mine["partitions"]] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(kcat, topic: str, codec: str) -> None:
    """-P and -C with every codec."""
    lines = "".join(f"record {number}\n" for number in range(200))
    kcat("-P", "-t", topic, "-p", "0", "-z", codec, stdin=lines)
    assert kcat("-C", "-t", topic, "-p", "0", "-e") == lines


def test_keys_headers_and_timestamps(kcat, topic: str) -> None:
    """What the format string can show."""
    kcat("-P", "-t", topic, "-p", "1", "-K", ":", "-H", "a=1", "-H", "b=2", stdin="key:value\n")
    found = kcat("-C", "-t", topic, "-p", "1", "-e", "-f", "%k|%s|%h|%p|%o|%R|%T\\n").replace("\0", "")
    assert found.startswith("key|value|a=1,b=2|1|0|") and int(found.strip().rpartition("|")[2]) > 1_600_000_000_000


def test_query_offsets(kcat, topic: str) -> None:
    """-Q by beginning, end and time."""
    kcat("-P", "-t", topic, "-p", "0", stdin="a\nb\nc\n")
    for stamp, offset in (("-2", 0), ("-1", 3), ("1000", 0)):
        assert kcat("-Q", "-t", f"{topic}:0:{stamp}").split()[-1] == str(offset)


def test_offsets_from_the_end(kcat, topic: str) -> None:
    """-o beginning, absolute, relative."""
    kcat("-P", "-t", topic, "-p", "0", stdin="a\nb\nc\n")
    for where, expected in (("beginning", "a\nb\nc\n"), ("1", "b\nc\n"), ("-1", "c\n"), ("end", "")):
        assert kcat("-C", "-t", topic, "-p", "0", "-o", where, "-e") == expected


def test_group(kcat, topic: str, unique) -> None:
    """-G reads all partitions, commits, and goes on."""
    group = unique("g")
    for text in ("a\nb\nc\n", "d\n"):
        kcat("-P", "-t", topic, stdin=text)
        found = kcat("-G", group, "-X", "auto.offset.reset=earliest", "-e", topic)
        assert sorted(found.split()) == text.split()


def test_idempotent_producer(kcat, topic: str) -> None:
    """enable.idempotence with this old library."""
    lines = "".join(f"{number}\n" for number in range(1000))
    kcat("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", "-X", "batch.num.messages=10", stdin=lines)
    assert kcat("-C", "-t", topic, "-p", "0", "-e") == lines


def test_transactional_producer(kcat, topic: str, unique) -> None:
    """One transaction around what it produces."""
    kcat("-P", "-t", topic, "-p", "0", "-X", f"transactional.id={unique('tx')}", stdin="a\nb\n")
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-X", "isolation.level=read_committed") == "a\nb\n"


def test_null_values(kcat, topic: str) -> None:
    """-Z sends a tombstone."""
    kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-Z", stdin="key:\n")
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-f", "%k %S\\n") == "key -1\n"


def test_unknown_topic(bootstrap: str, unique) -> None:
    """Consuming what is not there ends with an error."""
    program = tools.program("kcat", "apt-get install kcat")
    command = [program, "-b", bootstrap, "-C", "-t", unique("nowhere"), "-e", "-X", "allow.auto.create.topics=false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode != 0 and "Unknown topic" in done.stderr
