"""Reading back what was produced."""

from __future__ import annotations

from kafkapy.wire.record_batch import iterate_batches
from kafkapy.wire.records import read_records
from tests.support.requests import fetch, fetch_partition
from tests.support.wire_client import WireClient


def records_in(data: bytes | memoryview | None) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record in the batches."""
    if not data:
        return []
    return [
        (record.offset, record.value)
        for position, header in iterate_batches(data)
        for record in read_records(data, position, header)
    ]


def fetched(wire: WireClient, topic: str, index: int = 0, offset: int = 0) -> list[tuple[int, bytes | None]]:
    """(offset, value) of everything in a partition from an offset on."""
    found: list[tuple[int, bytes | None]] = []
    while True:
        answer = wire.request(fetch(topic, fetch_partition(index, offset=offset)), 12).responses[0].partitions[0]
        assert not answer.error_code, answer.error_code
        part = [one for one in records_in(answer.records) if one[0] >= offset]
        if not part:
            return found
        found += part
        offset = part[-1][0] + 1
