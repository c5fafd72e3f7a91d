"""What the codecs cost: a Produce request of one partition is decoded and its response encoded.

Run `python -m bench.wire`. Three ways of doing the same: the code that kafkapy generates, struct code as a patient person would
write it for one version, and the construct form, which interprets the declaration. Only the ratios mean anything: generated code
should take at most twice as long as hand-written code, and at most an eighth of what the interpreter takes.
"""

from __future__ import annotations

import struct
import sys
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from kafkapy.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

VERSIONS = (3, 9, 13)
HAND_WRITTEN_RATIO_MAX = 2.0
CONSTRUCT_RATIO_MIN = 8.0
RECORDS = bytes(210)

_new = object.__new__
_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")
_acks_timeout = struct.Struct(">hi")
_acks_timeout_count = struct.Struct(">hii")
_index_size = struct.Struct(">ii")
_partition_old = struct.Struct(">ihqq")
_partition_compact = struct.Struct(">ihqqqBBB")


def request_of(version: int) -> ProduceRequest:
    """One partition with a small batch, as a producer that writes one record at a time sends it."""
    partition = PartitionProduceData(index=3, records=memoryview(RECORDS))
    topic = TopicProduceData(partition_data=[partition])
    if version < 13:
        topic.name = "bench-topic"
    else:
        topic.topic_id = bytes(range(16))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def response_of(version: int) -> ProduceResponse:
    """The answer to it."""
    partition = PartitionProduceResponse(index=3, base_offset=123_456_789, log_start_offset=0)
    topic = TopicProduceResponse(partition_responses=[partition])
    if version < 13:
        topic.name = "bench-topic"
    else:
        topic.topic_id = bytes(range(16))
    return ProduceResponse(responses=[topic])


def _uvarint(buf: Any, pos: int) -> tuple[int, int]:
    value = buf[pos]
    pos += 1
    if value < 128:
        return value, pos
    value &= 127
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
        shift += 7


def decode_old_by_hand(buf: Any, pos: int, end: int) -> tuple[Any, int]:
    """Produce 3 to 8."""
    request: Any = _new(ProduceRequest)
    (size,) = _int16.unpack_from(buf, pos)
    pos += 2
    if size < 0:
        request.transactional_id = None
    else:
        request.transactional_id = str(buf[pos : pos + size], "utf-8")
        pos += size
    request.acks, request.timeout_ms, topics = _acks_timeout_count.unpack_from(buf, pos)
    pos += 10
    request.topic_data = []
    for _ in range(topics):
        topic: Any = _new(TopicProduceData)
        (size,) = _int16.unpack_from(buf, pos)
        pos += 2
        topic.name = str(buf[pos : pos + size], "utf-8")
        pos += size
        topic.topic_id = b""
        (partitions,) = _int32.unpack_from(buf, pos)
        pos += 4
        topic.partition_data = []
        for _ in range(partitions):
            partition: Any = _new(PartitionProduceData)
            partition.index, size = _index_size.unpack_from(buf, pos)
            pos += 8
            if size < 0:
                partition.records = None
            else:
                if pos + size > end:
                    raise ValueError("cut short")
                partition.records = buf[pos : pos + size]
                pos += size
            topic.partition_data.append(partition)
        request.topic_data.append(topic)
    if pos > end:
        raise ValueError("cut short")
    return request, pos


def decode_compact_by_hand(buf: Any, pos: int, end: int, with_name: bool) -> tuple[Any, int]:
    """Produce 9 to 13."""
    request: Any = _new(ProduceRequest)
    size, pos = _uvarint(buf, pos)
    if not size:
        request.transactional_id = None
    else:
        request.transactional_id = str(buf[pos : pos + size - 1], "utf-8")
        pos += size - 1
    request.acks, request.timeout_ms = _acks_timeout.unpack_from(buf, pos)
    topics, pos = _uvarint(buf, pos + 6)
    request.topic_data = []
    for _ in range(topics - 1):
        topic: Any = _new(TopicProduceData)
        if with_name:
            size, pos = _uvarint(buf, pos)
            topic.name = str(buf[pos : pos + size - 1], "utf-8")
            pos += size - 1
            topic.topic_id = b""
        else:
            topic.name = ""
            topic.topic_id = bytes(buf[pos : pos + 16])
            pos += 16
        partitions, pos = _uvarint(buf, pos)
        topic.partition_data = []
        for _ in range(partitions - 1):
            partition: Any = _new(PartitionProduceData)
            (partition.index,) = _int32.unpack_from(buf, pos)
            size, pos = _uvarint(buf, pos + 4)
            if not size:
                partition.records = None
            else:
                if pos + size - 1 > end:
                    raise ValueError("cut short")
                partition.records = buf[pos : pos + size - 1]
                pos += size - 1
            pos = _skip_tags(buf, pos)
            topic.partition_data.append(partition)
        pos = _skip_tags(buf, pos)
        request.topic_data.append(topic)
    pos = _skip_tags(buf, pos)
    if pos > end:
        raise ValueError("cut short")
    return request, pos


def _skip_tags(buf: Any, pos: int) -> int:
    count, pos = _uvarint(buf, pos)
    for _ in range(count):
        _, pos = _uvarint(buf, pos)
        size, pos = _uvarint(buf, pos)
        pos += size
    return pos


def encode_old_by_hand(response: ProduceResponse, out: bytearray, splits: list[Any]) -> None:
    """Produce 3 and 4."""
    out += _int32.pack(len(response.responses))
    for topic in response.responses:
        name = topic.name.encode()
        out += _int16.pack(len(name))
        out += name
        out += _int32.pack(len(topic.partition_responses))
        for partition in topic.partition_responses:
            out += _partition_old.pack(
                partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms
            )
    out += _int32.pack(response.throttle_time_ms)


def encode_compact_by_hand(response: ProduceResponse, out: bytearray, splits: list[Any], with_name: bool) -> None:
    """Produce 9 to 13, as long as there are no errors to tell and no leader to name."""
    out.append(len(response.responses) + 1)
    for topic in response.responses:
        if with_name:
            name = topic.name.encode()
            out.append(len(name) + 1)
            out += name
        else:
            out += topic.topic_id
        out.append(len(topic.partition_responses) + 1)
        for partition in topic.partition_responses:
            leader = partition.current_leader
            if partition.record_errors or partition.error_message is not None or leader.leader_id != -1:
                raise ValueError("not in this benchmark")
            out += _partition_compact.pack(
                partition.index,
                partition.error_code,
                partition.base_offset,
                partition.log_append_time_ms,
                partition.log_start_offset,
                1,
                0,
                0,
            )
        out.append(0)
    if response.node_endpoints:
        raise ValueError("not in this benchmark")
    out += _int32.pack(response.throttle_time_ms)
    out.append(0)


def by_hand(version: int) -> tuple[Callable[[Any, int, int], Any], Callable[[Any, bytearray, list[Any]], None]]:
    """The hand-written decoder and encoder of one version."""
    if version < 9:
        return decode_old_by_hand, encode_old_by_hand
    with_name = version < 13
    return partial(decode_compact_by_hand, with_name=with_name), partial(encode_compact_by_hand, with_name=with_name)


def microseconds(run: Callable[[], Any], number: int) -> float:
    """The best of several rounds: whatever else the machine does can only make a round slower."""
    return min(timeit.repeat(run, number=number, repeat=7)) / number * 1e6


def measure(version: int, rounds: int = 20_000) -> tuple[float, float, float]:
    """Microseconds of the generated code, of the hand-written code, and of construct."""
    raw, response = request_of(version).encode(version), response_of(version)
    buf = memoryview(bytearray(raw))
    answer = response.encode(version)
    decode, encode = ProduceRequest.decoder(version), ProduceResponse.encoder(version)
    decode_hand, encode_hand = by_hand(version)
    request_construct, response_construct = ProduceRequest.construct(version), ProduceResponse.construct(version)
    for encoder in (encode, encode_hand):
        out = bytearray()
        encoder(response, out, [])
        assert out == answer, "both must write the same bytes"
    hand = decode_hand(buf, 0, len(buf))
    assert hand[1] == decode(buf, 0, len(buf))[1] == len(raw)

    def generated() -> None:
        decode(buf, 0, len(buf))
        encode(response, bytearray(), [])

    def hand_written() -> None:
        decode_hand(buf, 0, len(buf))
        encode_hand(response, bytearray(), [])

    def interpreted() -> None:
        request_construct.parse(raw)
        response_construct.build(response)

    return (
        microseconds(generated, rounds),
        microseconds(hand_written, rounds),
        microseconds(interpreted, max(1, rounds // 50)),
    )


def main() -> int:
    """Print one line per version; the exit status says whether the ratios hold."""
    failed = 0
    print("Produce, one partition, request decoded and response encoded")
    for version in VERSIONS:
        generated, hand, interpreted = measure(version)
        slower, faster = generated / hand, interpreted / generated
        holds = slower <= HAND_WRITTEN_RATIO_MAX and faster >= CONSTRUCT_RATIO_MIN
        failed += not holds
        print(
            f"  version {version:2}: generated {generated:5.2f} µs, {slower:4.2f} times hand-written ({hand:5.2f} µs), "
            f"{faster:5.1f} times faster than construct ({interpreted:6.1f} µs){'' if holds else '  MISSED'}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
