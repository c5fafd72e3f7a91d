"""Produce: every version, and what is refused with which code."""

from __future__ import annotations

import struct
import time

from compat_tests.differential.cases import case
from compat_tests.differential.probe import UNKNOWN_ID, Probe
from kafkapy.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.wire.record_batch import set_crc
from tests.support.requests import batch, fetch, fetch_partition, produce, produce_many

HOUR_MS = 3_600_000


def resealed(data: bytes) -> bytes:
    """The batch with a checksum that fits what was done to it."""
    changed = bytearray(data)
    set_crc(changed, 0, len(changed))
    return bytes(changed)


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    """The batch with one field overwritten; the checksum is not touched."""
    changed = bytearray(data)
    struct.pack_into(">" + form, changed, at, value)
    return bytes(changed)


@case
def produce_every_version(probe: Probe) -> None:
    topic_id = probe.create_topic("p-versions")
    for acks in (1, -1):
        probe.ask_all(
            f"acks {acks}",
            lambda version, acks=acks: produce("p-versions", batch(b"a", b"b"), acks=acks, topic_id=topic_id),
        )
    probe.ask("what is there", fetch("p-versions", fetch_partition()), 12)


@case
def produce_old_versions(probe: Probe) -> None:
    for version in (0, 1, 2):
        probe.ask_bytes(f"v{version}", struct.pack(">ihhih", 10, 0, version, 1, -1))


@case
def produce_unknown_topics(probe: Probe) -> None:
    probe.create_topic("p-known", 2)
    for version in (3, 7, 9, 12):
        probe.ask("unknown topic", produce("p-unknown", batch(b"a")), version)
        probe.ask("unknown partition", produce("p-known", batch(b"a"), index=7), version)
        probe.ask("negative partition", produce("p-known", batch(b"a"), index=-1), version)
        probe.ask("invalid name", produce("p known", batch(b"a")), version)
        probe.ask("empty name", produce("", batch(b"a")), version)
    probe.ask("unknown id", produce("", batch(b"a"), topic_id=UNKNOWN_ID), 13)
    probe.ask("zero id", produce("", batch(b"a")), 13)
    probe.ask(
        "some good",
        produce_many([("p-known", 0, batch(b"a")), ("p-known", 9, batch(b"a")), ("p-nope", 0, batch(b"a"))]),
        9,
    )


@case
def produce_damaged_batches(probe: Probe) -> None:
    probe.create_topic("p-damaged")
    good = batch(b"some value", b"another one")
    bad = {
        "bad crc": patched(good, 17, "I", 12345),
        "flipped value": good[:-1] + bytes([good[-1] ^ 1]),
        "empty": b"",
        "two batches": good + good,
        "a batch and a tail": good + good[:30],
        "truncated": good[:-5],
        "only a header": good[:61],
        "less than a header": good[:40],
        "ten bytes": good[:10],
        "garbage": b"\x7f" * 100,
        "zeros": bytes(100),
        "magic 0": patched(good, 16, "b", 0),
        "magic 1": patched(good, 16, "b", 1),
        "magic 3": patched(good, 16, "b", 3),
        "magic -1": patched(good, 16, "b", -1),
        "length 0": patched(good, 8, "i", 0),
        "length negative": patched(good, 8, "i", -5),
        "length 48": patched(good, 8, "i", 48),
        "length too long": patched(good, 8, "i", len(good)),
        "length huge": patched(good, 8, "i", 2**31 - 1),
        "base offset 5": patched(good, 0, "q", 5),
        "epoch 7": patched(good, 12, "i", 7),
        "count 1 of 2": resealed(patched(good, 57, "i", 1)),
        "count 3 of 2": resealed(patched(good, 57, "i", 3)),
        "count 0": resealed(patched(good, 57, "i", 0)),
        "count negative": resealed(patched(good, 57, "i", -1)),
        "count null": resealed(patched(patched(good, 57, "i", -1), 23, "i", -2)),
        "last delta 5": resealed(patched(good, 23, "i", 5)),
        "last delta negative": resealed(patched(good, 23, "i", -1)),
        "control": resealed(patched(good, 21, "h", 0x20)),
        "log append time": resealed(patched(good, 21, "h", 0x08)),
        "transactional without producer": resealed(patched(good, 21, "h", 0x10)),
        "unused attributes": resealed(patched(good, 21, "h", 0x4000)),
        "delete horizon": resealed(patched(good, 21, "h", 0x40)),
        "codec 5": resealed(patched(good, 21, "h", 5)),
        "codec 7": resealed(patched(good, 21, "h", 7)),
        "no records in an empty batch": batch(),
        "claims gzip": resealed(patched(good, 21, "h", 1)),
        "claims zstd": resealed(patched(good, 21, "h", 4)),
        "record garbage": resealed(good[:61] + b"\xff" * (len(good) - 61)),
        "record length negative": resealed(good[:61] + b"\x01" + good[62:]),
    }
    for label, records in bad.items():
        for version in (3, 9):
            probe.ask(label, produce("p-damaged", records), version)
    probe.ask("null records", produce("p-damaged", None), 9, timeout_s=1.0)
    probe.ask("what is there", fetch("p-damaged", fetch_partition()), 12)


@case
def produce_acks(probe: Probe) -> None:
    probe.create_topic("p-acks")
    for acks in (2, -2, 3, 100):
        for version in (3, 9):
            probe.ask(f"acks {acks}", produce("p-acks", batch(b"a"), acks=acks), version)
    probe.ask("acks 2 unknown topic", produce("p-acks-none", batch(b"a"), acks=2), 9)
    probe.ask("timeout 0", produce("p-acks", batch(b"a"), acks=-1, timeout_ms=0), 9)
    probe.ask("timeout negative", produce("p-acks", batch(b"a"), acks=-1, timeout_ms=-7), 9)
    probe.wire.send(produce("p-acks", batch(b"a"), acks=0), 9, answered=False)
    probe.ask("after acks 0", fetch("p-acks", fetch_partition(offset=2)), 12)
    probe.ask("acks 0 refused", produce("p-acks-none", batch(b"a"), acks=0), 9, timeout_s=1.0)
    probe.ask("acks 0 bad crc", produce("p-acks", patched(batch(b"a"), 17, "I", 1), acks=0), 9, timeout_s=1.0)


@case
def produce_nothing(probe: Probe) -> None:
    probe.create_topic("p-nothing")
    for version in (3, 9, 13):
        probe.ask("no topics", ProduceRequest(acks=1, timeout_ms=100), version)
        probe.ask(
            "no partitions",
            ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="p-nothing")]),
            version,
        )


@case
def produce_the_same_partition_twice(probe: Probe) -> None:
    probe.create_topic("p-twice")
    twice = [PartitionProduceData(index=0, records=batch(b"a")), PartitionProduceData(index=0, records=batch(b"b"))]
    probe.ask(
        "in one topic",
        ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="p-twice", partition_data=twice)]),
        9,
    )
    topics = [TopicProduceData(name="p-twice", partition_data=[one]) for one in twice]
    probe.ask("in two topics", ProduceRequest(acks=1, timeout_ms=100, topic_data=topics), 9)


@case
def produce_compressed(probe: Probe) -> None:
    probe.create_topic("p-compressed")
    for codec in range(5):
        for version in (3, 6, 7, 9):
            probe.ask(f"codec {codec}", produce("p-compressed", batch(b"a" * 300, b"b" * 300, codec=codec)), version)


@case
def produce_too_large(probe: Probe) -> None:
    probe.create_topic("p-small", config={"max.message.bytes": "1000"})
    for size in (900, 931, 932, 933, 950, 2000):
        for version in (3, 9):
            probe.ask(f"{size} bytes", produce("p-small", batch(b"x" * size)), version)
    probe.ask("compressed", produce("p-small", batch(b"x" * 2000, codec=1)), 9)


@case
def produce_timestamps(probe: Probe) -> None:
    probe.create_topic("p-time")
    now = int(time.time() * 1000)
    for label, timestamp in {
        "none": -1,
        "zero": 0,
        "now": now,
        "half an hour ahead": now + HOUR_MS // 2,
        "two hours ahead": now + 2 * HOUR_MS,
        "far future": 2**60,
        "long ago": 1000,
        "minus five": -5,
    }.items():
        for version in (3, 9):
            probe.ask(label, produce("p-time", batch(b"x", b"y", timestamp=timestamp)), version)
    probe.create_topic(
        "p-window", config={"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "1000"}
    )
    for label, timestamp in {"now": now, "too old": now - 2 * HOUR_MS, "too new": now + HOUR_MS, "none": -1}.items():
        probe.ask(f"window {label}", produce("p-window", batch(b"x", b"y", timestamp=timestamp)), 9)
        probe.ask(f"window compressed {label}", produce("p-window", batch(b"x", b"y", timestamp=timestamp, codec=1)), 9)
    probe.create_topic("p-append-time", config={"message.timestamp.type": "LogAppendTime"})
    for label, timestamp in {"now": now, "none": -1, "far future": 2**60}.items():
        probe.ask(f"append time {label}", produce("p-append-time", batch(b"x", b"y", timestamp=timestamp)), 9)
        probe.ask(
            f"append time compressed {label}",
            produce("p-append-time", batch(b"x", b"y", timestamp=timestamp, codec=3)),
            9,
        )
    probe.ask("what is there", fetch("p-append-time", fetch_partition()), 12)


@case
def produce_to_a_compacted_topic(probe: Probe) -> None:
    probe.create_topic("p-compact", config={"cleanup.policy": "compact"})
    for version in (3, 7, 8, 9):
        probe.ask("null keys", produce("p-compact", batch(b"a", b"b")), version)
        probe.ask("keys", produce("p-compact", batch(b"a", b"b", key=b"k")), version)
        probe.ask("null keys compressed", produce("p-compact", batch(b"a", b"b", codec=2)), version)
        probe.ask("tombstone", produce("p-compact", batch(None, key=b"k")), version)
        probe.ask("empty key", produce("p-compact", batch(b"a", key=b"")), version)


@case
def produce_to_internal_topics(probe: Probe) -> None:
    from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest

    probe.quietly(FindCoordinatorRequest(key="any"), 0)
    probe.topic_id("__consumer_offsets")
    for version in (3, 9):
        probe.ask("offsets", produce("__consumer_offsets", batch(b"a", key=b"k")), version)


@case
def produce_with_another_compression_type(probe: Probe) -> None:
    probe.create_topic("p-gzip", config={"compression.type": "gzip"})
    probe.create_topic("p-plain", config={"compression.type": "uncompressed"})
    for codec in range(5):
        probe.ask(f"codec {codec} to gzip", produce("p-gzip", batch(b"a" * 300, b"b" * 300, codec=codec)), 9)
        probe.ask(f"codec {codec} to plain", produce("p-plain", batch(b"a" * 300, b"b" * 300, codec=codec)), 9)
    answer = probe.quietly(fetch("p-plain", fetch_partition()), 12)
    probe.note("plain", answer.to_json(12))


@case
def produce_idempotently(probe: Probe) -> None:
    probe.create_topic("p-idem", 6)

    def send(label: str, index: int, sequence: int, epoch: int = 0, count: int = 1, producer: int = 4000) -> None:
        data = batch(*[b"v"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        probe.ask(label, produce("p-idem", data, index=index, acks=-1), 9)

    for sequence in range(8):
        send(f"sequence {sequence}", 0, sequence)
    for sequence in range(7, -1, -1):
        send(f"again {sequence}", 0, sequence)
    send("gap", 0, 9)
    send("next", 0, 8)
    send("partly again", 0, 7, count=2)
    send("higher epoch not from zero", 0, 9, epoch=1)
    send("higher epoch", 0, 0, epoch=1)
    send("lower epoch", 0, 9, epoch=0)
    send("lower epoch again", 0, 8, epoch=0)
    send("same again", 0, 0, epoch=1)
    send("no state, any sequence", 1, 77)
    send("and on", 1, 78)
    send("and a gap", 1, 80)
    send("near the end", 2, 2**31 - 2, count=2)
    send("wrapped", 2, 0)
    send("over the wrap", 3, 2**31 - 1, count=3)
    send("after the wrap", 3, 2)
    send("over the wrap again", 3, 2**31 - 1, count=3)
    send("negative sequence", 4, -1)
    send("sequence -2", 4, -2)
    send("negative epoch", 4, 0, epoch=-1)
    send("negative producer", 4, 0, producer=-5)
    send("other producer", 0, 0, producer=4001)
    probe.ask("what is there", fetch("p-idem", fetch_partition(0), fetch_partition(3)), 12)


@case
def produce_in_a_transaction_that_was_not_begun(probe: Probe) -> None:
    probe.create_topic("p-txn")
    data = batch(b"a", producer_id=5000, producer_epoch=0, base_sequence=0, transactional=True)
    for version in (3, 9, 11, 12):
        probe.ask("transactional id", produce("p-txn", data, acks=-1, transactional_id="nobody"), version)
        probe.ask("no transactional id", produce("p-txn", data, acks=-1), version)
    plain = batch(b"a", producer_id=5001, producer_epoch=0, base_sequence=0)
    probe.ask("an id but no transactional batch", produce("p-txn", plain, acks=-1, transactional_id="nobody"), 9)


@case
def produce_headers_and_nulls(probe: Probe) -> None:
    from kafkapy.wire.records import BatchBuilder

    probe.create_topic("p-headers")
    builder = BatchBuilder()
    builder.append(1000, None, None, [("a", None), ("a", b""), ("", b"x")])
    probe.ask("headers", produce("p-headers", bytes(builder.build())), 9)
    probe.ask("null value", produce("p-headers", batch(None)), 9)
    probe.ask("what is there", fetch("p-headers", fetch_partition()), 12)
