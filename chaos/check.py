"""Whether what was promised is there. Everything is read with stock clients, and the files of all replicas are compared byte by byte.

records       each acknowledged one is at the offset that was acknowledged; none is there twice; numbers of a producer rise
transactions  each committed one is whole, nothing of an aborted one is read, one whose end is unknown is whole or not there at all
copy          the copy of a topic is what the topic begins with, as far as the copier's offsets say at least
offsets       a group's committed offsets are not before what was acknowledged
rereading     what was at an offset once is there for good
replicas      below the high watermark all replicas have the same bytes
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from chaos.ledger import Ack, Transaction
from chaos.transactions import ABORTED, COMMITTED
from chaos.workload import CLIENT
from kafkapy.client import groups
from kafkapy.client.client import Client
from kafkapy.client.offsets import END, READ_COMMITTED, READ_UNCOMMITTED, list_offsets_of_all
from kafkapy.testing import Cluster
from kafkapy.types import TopicPartition as Key

READ_TIMEOUT_S = 60.0
# A replica that was just mended may still be copying.
REPLICAS_TIMEOUT_S = 20.0
_MISTAKES_SHOWN = 5

# base offset, length of the rest, ..., last offset delta: the fields of a batch header that tell where it begins and ends.
_BATCH = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_PREFIX_BYTES = 12

Seen = dict[Key, dict[int, str]]


class Wrong(Exception):
    """A promise was broken; the message says which, with examples."""


def ends_of(cluster: Cluster, partitions: Iterable[Key], *, committed: bool) -> dict[Key, int]:
    """The high watermarks, or with `committed` the last stable offsets."""
    level = READ_COMMITTED if committed else READ_UNCOMMITTED
    with cluster.client() as client:
        return list_offsets_of_all(client, dict.fromkeys(partitions, END), isolation_level=level)


def wait_stable(cluster: Cluster, targets: Mapping[Key, int], timeout_s: float) -> dict[Key, int]:
    """Wait until transactions that were open at these offsets have ended; returns the last stable offsets."""
    deadline = time.monotonic() + timeout_s
    while True:
        stable = ends_of(cluster, targets, committed=True)
        late = [key for key, target in targets.items() if stable[key] < target]
        if not late:
            return stable
        if time.monotonic() > deadline:
            key = late[0]
            raise Wrong(
                f"{key}: the last stable offset stays at {stable[key]}, before {targets[key]}, for {timeout_s:.0f} s"
            )
        time.sleep(0.2)


def read_more(
    bootstrap: str, seen: Seen, ends: Mapping[Key, int], *, committed: bool, positions: dict[Key, int]
) -> None:
    """Read from `positions` up to these offsets into `seen`, and move the positions."""
    consumer = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-check",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "check.crcs": True,
            "enable.partition.eof": True,
            "error_cb": lambda error: None,
        }
    )
    try:
        open_ends = {key: end for key, end in ends.items() if positions.get(key, 0) < end}
        consumer.assign([TopicPartition(*key, positions.get(key, 0)) for key in open_ends])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while open_ends:
            if time.monotonic() > deadline:
                raise Wrong(f"cannot read up to {dict(list(open_ends.items())[:3])} within {READ_TIMEOUT_S:.0f} s")
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                key = Key(message.topic() or "", message.partition() or 0)
                reached = message.offset() or 0
                if error is None:
                    _see(seen.setdefault(key, {}), key, reached, (message.key() or b"").decode())
                    reached += 1
                elif error.name() == "_PARTITION_EOF":
                    # Control records have offsets, too, but are never read: the end itself says that they are passed.
                    pass
                else:
                    continue
                if key in open_ends:
                    positions[key] = reached
                    if reached >= open_ends[key]:
                        del open_ends[key]
    finally:
        consumer.close()


def _see(found: dict[int, str], key: Key, offset: int, value: str) -> None:
    known = found.setdefault(offset, value)
    if known != value:
        raise Wrong(f"{key}: offset {offset} was {known}, and is {value} now")


def check_acked(acked: Mapping[tuple[str, int], Sequence[Ack]], seen: Seen) -> int:
    """Acknowledged records are where they were acknowledged; returns how many that are."""
    wrong = []
    count = 0
    for (topic, partition), acks in acked.items():
        found = seen.get(Key(topic, partition), {})
        count += len(acks)
        values = None
        for ack in acks:
            if ack.offset is None:
                # A retry whose first try had arrived: the broker says so, and the client does not know where.
                values = values or set(found.values())
                if ack.value not in values:
                    wrong.append(f"{topic}-{partition}: {ack.value} was acknowledged, and is not there")
            elif found.get(ack.offset) != ack.value:
                there = found.get(ack.offset)
                wrong.append(f"{topic}-{partition}: {ack.value} was acknowledged at {ack.offset}, there is {there}")
    _raise(wrong, "acknowledged records are lost")
    return count


def check_once_in_order(seen: Seen) -> None:
    """No value twice in a topic, and the numbers of each producer rise in each partition."""
    wrong = []
    values: Counter[tuple[str, str]] = Counter()
    for key, found in seen.items():
        last: dict[str, int] = {}
        for offset in sorted(found):
            value = found[offset]
            values[key.topic, value] += 1
            producer, _, _, number = value.split(":")
            if int(number) <= last.get(producer, -1):
                wrong.append(f"{key}: {value} at {offset} comes after number {last[producer]} of {producer}")
            last[producer] = int(number)
    wrong += [f"{topic}: {value} is there {count} times" for (topic, value), count in values.items() if count > 1]
    _raise(wrong, "records are there twice, or out of order")


def check_transactions(done: Iterable[Transaction], seen: Seen) -> Counter[str]:
    """All or nothing; returns how many have ended how."""
    wrong = []
    ends: Counter[str] = Counter()
    present: dict[Key, Counter[str]] = {key: Counter(found.values()) for key, found in seen.items()}
    for transaction in done:
        ends[transaction.end] += 1
        counts = [
            present.get(Key(topic, partition), Counter())[value]
            for (topic, partition), value in transaction.values.items()
        ]
        first = next(iter(transaction.values.values()))
        if transaction.end == COMMITTED and set(counts) != {1}:
            wrong.append(f"the committed transaction with {first} is there {counts} times")
        elif transaction.end == ABORTED and set(counts) != {0}:
            wrong.append(f"the aborted transaction with {first} is there {counts} times")
        elif set(counts) not in ({0}, {1}):
            wrong.append(f"the transaction with {first}, whose end is not known, is there {counts} times")
    _raise(wrong, "transactions are not whole")
    return ends


def check_copy(source: Seen, target: Seen, source_topic: str, target_topic: str, committed: Mapping[int, int]) -> int:
    """Each partition of the copy is how its source begins; returns how many records were copied."""
    wrong = []
    copied = 0
    for key, found in source.items():
        if key.topic != source_topic:
            continue
        copy = target.get(Key(target_topic, key.partition), {})
        original = [found[offset] for offset in sorted(found)]
        values = [copy[offset] for offset in sorted(copy)]
        copied += len(values)
        due = sum(1 for offset in found if offset < committed.get(key.partition, 0))
        if len(values) < due:
            wrong.append(
                f"{key}: offsets up to {committed[key.partition]} are committed, but only {len(values)} of {due} records copied"
            )
        shared = original[: len(values)]
        if values[: len(original)] != shared:
            place = next(place for place, (one, other) in enumerate(zip(values, shared, strict=False)) if one != other)
            wrong.append(f"{key}: record {place} of the copy is {values[place]}, not {shared[place]}")
    _raise(wrong, "the copy is not what was copied")
    return copied


def committed_offsets(cluster: Cluster, group: str) -> dict[int, int]:
    """What the coordinator knows, by partition."""

    def found(client: Client) -> dict[int, int]:
        return {item.partition: known.offset for item, known in groups.committed_offsets(client, group).items()}

    return cluster.wait_for(found, f"the offsets of {group}")


def wait_committed(cluster: Cluster, group: str, ends: Mapping[int, int], timeout_s: float) -> None:
    """A group that works gets there: nothing that hangs holds it for good."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = committed_offsets(cluster, group)
        late = {partition: end for partition, end in ends.items() if found.get(partition, 0) < end}
        if not late:
            return
        if time.monotonic() > deadline:
            raise Wrong(f"{group} is at {found} and does not get to {late} within {timeout_s:.0f} s")
        time.sleep(0.2)


def check_commits(promised: Mapping[int, int], found: Mapping[int, int], group: str) -> None:
    """Commits that were acknowledged are there."""
    wrong = [
        f"{group}: offset {offset} of partition {partition} was committed, there is {found.get(partition)}"
        for partition, offset in promised.items()
        if found.get(partition, -1) < offset
    ]
    _raise(wrong, "committed offsets are lost")


def check_replicas(cluster: Cluster, ends: Mapping[Key, int], verified: dict[Key, int]) -> int:
    """The bytes of all replicas from the `verified` offsets to the high watermarks are the same; returns how many bytes that are."""
    deadline = time.monotonic() + REPLICAS_TIMEOUT_S
    total = 0
    for key, end in sorted(ends.items()):
        while True:
            logs = _logs(cluster, key, verified.get(key, 0), end)
            longest = max(logs.values(), key=len)
            if all(data == longest for data in logs.values()):
                break
            is_behind = all(longest.startswith(data) for data in logs.values())
            if not is_behind or time.monotonic() > deadline:
                sizes = {node: len(data) for node, data in logs.items()}
                what = (
                    f"stay behind for {REPLICAS_TIMEOUT_S:.0f} s" if is_behind else f"differ: {_first_difference(logs)}"
                )
                raise Wrong(f"{key}: from {verified.get(key, 0)} to {end} replicas {what}; bytes: {sizes}")
            time.sleep(0.1)
        total += sum(map(len, logs.values()))
        verified[key] = end
    return total


def _logs(cluster: Cluster, key: Key, begin: int, end: int) -> dict[int, bytes]:
    found = {
        node: _log_bytes(cluster.data(node) / f"{key.topic}-{key.partition}", begin, end) for node in cluster.nodes
    }
    return {node: data for node, data in found.items() if data is not None}


def _log_bytes(folder: Path, begin: int, end: int) -> bytes | None:
    """The batches with offsets from `begin` up to before `end`; None where there is no replica."""
    if not folder.is_dir():
        return None
    segments = sorted(folder.glob("*.log"))
    starts = [int(segment.stem) for segment in segments]
    parts = []
    for place, segment in enumerate(segments):
        if place + 1 < len(segments) and starts[place + 1] <= begin:
            continue
        if starts[place] >= end:
            break
        data = segment.read_bytes()
        position, first, last = 0, None, 0
        while position + _LAST_OFFSET_DELTA_AT + 4 <= len(data):
            base, length = _BATCH.unpack_from(data, position)
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_AT)
            if base + delta >= end:
                break
            if base >= begin and first is None:
                first = position
            position += _PREFIX_BYTES + length
            last = position
        if first is not None:
            parts.append(data[first:last])
    return b"".join(parts)


def _first_difference(logs: Mapping[int, bytes]) -> str:
    (one, data), *others = logs.items()
    for node, other in others:
        if other != data:
            shared = min(len(data), len(other))
            place = next((at for at in range(shared) if data[at] != other[at]), shared)
            return f"{one} and {node} differ first at byte {place}"
    return ""


def _raise(wrong: Sequence[str], what: str) -> None:
    if wrong:
        shown = "\n  ".join(wrong[:_MISTAKES_SHOWN])
        raise Wrong(f"{what}, {len(wrong)} in all:\n  {shown}")
