"""What chaos checks, fed with broken promises: each kind is found, and what is sound is not accused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import check
from chaos.check import Wrong
from chaos.ledger import Ack, Ledger, Transaction
from kafkapy.types import TopicPartition as Key
from kafkapy.wire.records import Record, encode_batch

A, B = Key("t", 0), Key("t", 1)


def test_acknowledged_records_must_be_where_they_were_acknowledged() -> None:
    """Also one whose offset the client was not told."""
    seen = {A: {0: "p:0:0:0", 1: "p:0:0:1"}}
    assert check.check_acked({A: [Ack("p:0:0:0", 0), Ack("p:0:0:1", None)]}, seen) == 2
    for lost in (Ack("p:0:0:0", 1), Ack("p:0:0:2", 2), Ack("p:0:0:2", None)):
        with pytest.raises(Wrong, match="lost, 1 in all"):
            check.check_acked({A: [lost]}, seen)


def test_records_must_be_there_once_and_in_order() -> None:
    """Per producer and partition, over its generations; a gap is no mistake, for a record may have been given up."""
    check.check_once_in_order({A: {0: "p:0:0:0", 1: "q:0:0:0", 2: "p:1:0:5"}, B: {0: "p:0:1:0"}})
    with pytest.raises(Wrong, match="comes after number 1 of p"):
        check.check_once_in_order({A: {0: "p:0:0:1", 1: "p:0:0:0"}})
    with pytest.raises(Wrong, match="is there 2 times"):
        check.check_once_in_order({A: {0: "p:0:0:0", 5: "p:0:0:0"}})


@pytest.mark.parametrize(
    ("end", "there", "sound"),
    [
        ("committed", (1, 1), True),
        ("committed", (1, 0), False),
        ("committed", (0, 0), False),
        ("committed", (2, 1), False),
        ("aborted", (0, 0), True),
        ("aborted", (0, 1), False),
        ("unknown", (0, 0), True),
        ("unknown", (1, 1), True),
        ("unknown", (0, 1), False),
    ],
)
def test_transactions_are_whole_or_not_there(end: str, there: tuple[int, int], sound: bool) -> None:
    """In all of their partitions."""
    transaction = Transaction({A: "w:0:0", B: "w:0:1"}, end)
    seen = {A: dict.fromkeys(range(there[0]), "w:0:0"), B: dict.fromkeys(range(there[1]), "w:0:1")}
    if sound:
        assert check.check_transactions([transaction], seen)[end] == 1
    else:
        with pytest.raises(Wrong, match="not whole"):
            check.check_transactions([transaction], seen)


def test_a_copy_is_how_its_source_begins() -> None:
    """As long as the committed offsets say at least."""
    source = {A: {0: "a", 1: "b", 2: "c"}}
    target = Key("copy", 0)
    assert check.check_copy(source, {target: {0: "a", 3: "b"}}, "t", "copy", {0: 2}) == 2
    for copy, committed in (({0: "a"}, 2), ({0: "a", 1: "a"}, 1), ({0: "b"}, 0), ({0: "a", 1: "c"}, 0)):
        with pytest.raises(Wrong, match="not what was copied"):
            check.check_copy(source, {target: copy}, "t", "copy", {0: committed})


def test_acknowledged_commits_must_be_kept() -> None:
    """Later ones may have come since."""
    check.check_commits({0: 5}, {0: 6}, "g")
    for found in ({0: 4}, {}):
        with pytest.raises(Wrong, match="committed offsets are lost"):
            check.check_commits({0: 5}, found, "g")


def test_what_was_read_once_must_be_there_for_good() -> None:
    """Another value at the same offset is a truncation of something committed."""
    found: dict[int, str] = {}
    check._see(found, A, 3, "x")
    check._see(found, A, 3, "x")
    with pytest.raises(Wrong, match="offset 3 was x, and is y now"):
        check._see(found, A, 3, "y")


def batch(base: int, count: int, text: bytes) -> bytes:
    """A batch as it lies in a segment."""
    return bytes(encode_batch(Record(base + index, 0, None, text) for index in range(count)))


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two nodes with a folder each; what they hold is up to the test."""
    monkeypatch.setattr(check, "REPLICAS_TIMEOUT_S", 0.0)
    return SimpleNamespace(nodes=[1, 2], data=lambda node: tmp_path / str(node))


def put(replicas: Any, node: int, **segments: bytes) -> None:
    """Write the segments of t-0 on a node."""
    folder = replicas.data(node) / "t-0"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in segments.items():
        (folder / f"{name.removeprefix('at'):0>20}.log").write_bytes(data)


def test_replicas_must_be_the_same_below_the_high_watermark(replicas: Any) -> None:
    """Wherever their segments begin, and whatever is above."""
    first, second, third = batch(0, 2, b"a"), batch(2, 3, b"b"), batch(5, 1, b"c")
    put(replicas, 1, at0=first + second, at5=third)
    put(replicas, 2, at0=first, at2=second)
    verified: dict[Key, int] = {}
    assert check.check_replicas(replicas, {A: 5}, verified) == 2 * len(first + second)
    assert verified == {A: 5}
    with pytest.raises(Wrong, match="stay behind"):
        check.check_replicas(replicas, {A: 6}, verified)
    put(replicas, 2, at5=batch(5, 1, b"d"))
    with pytest.raises(Wrong, match="differ: 1 and 2 differ first at byte"):
        check.check_replicas(replicas, {A: 6}, verified)


def test_the_longest_time_without_an_ack_counts_what_still_lasts() -> None:
    """Per partition, and from the last look on."""
    ledger = Ledger()
    ledger.ack("t", 0, "v", 0)
    ledger.ack("t", 1, "v", 0)
    assert set(ledger.take_longest_gaps()) == {("t", 0), ("t", 1)}
    ledger._last_ack["t", 1] -= 60
    gaps = ledger.take_longest_gaps()
    assert gaps["t", 1] >= 60 > gaps["t", 0]
    assert ledger.take_longest_gaps()["t", 1] < 60
