"""What the tests of compaction share: one whole round in this process, and what a consumer sees of a log."""

from __future__ import annotations

import json

from kafkapy.log.cleaner import CompactionJob, cleanable_range
from kafkapy.log.compaction import Compaction
from kafkapy.log.compaction_task import CompactionStats, CompactionTask
from kafkapy.log.filesystem import unlink_if_exists
from kafkapy.log.log import Log
from kafkapy.wire.record_batch import iterate_batches
from kafkapy.wire.records import Record, read_records
from tests.log.support import read_all

MAP_BYTES = 1 << 16


def job_for(log: Log, now_ms: int, checkpoint: int | None = None, map_bytes: int = MAP_BYTES) -> CompactionJob | None:
    """The job of a round, the high watermark being the log's end; None when there is nothing to do."""
    first = log.first_unstable_offset
    dirty = cleanable_range(log, first if first >= 0 else log.log_end_offset, checkpoint, now_ms)
    if not dirty.cleanable_bytes:
        return None
    return CompactionJob(log, dirty, now_ms, map_bytes=map_bytes, map_load_factor=0.9)


def work_on(log: Log, job: CompactionJob) -> Compaction:
    """The worker's side of a job, its task having travelled as JSON."""
    task = CompactionTask.of(json.loads(json.dumps(job.task._asdict())))
    assert task == job.task
    return Compaction(task, log.pool.fs, lambda size: None)


def clean(log: Log, now_ms: int, checkpoint: int | None = None, map_bytes: int = MAP_BYTES) -> CompactionStats | None:
    """One round of compaction, swapped in; the old files go at once."""
    job = job_for(log, now_ms, checkpoint, map_bytes)
    if job is None:
        return None
    work = work_on(log, job)
    for group in work.groups():
        paths = job.install(group)
        assert paths is not None
        for path in paths:
            assert unlink_if_exists(log.pool.fs, path)
    return work.stats


def visible(log: Log, committed_only: bool, end_offset: int | None = None) -> list[Record]:
    """What a consumer reads from the start, in the way that clients leave out aborted records."""
    end = log.log_end_offset if end_offset is None else end_offset
    aborted = sorted(log.aborted_transactions(log.log_start_offset, end), key=lambda entry: entry.first_offset)
    ongoing: set[int] = set()
    found = []
    data = read_all(log)
    for position, header in iterate_batches(data):
        if header.base_offset >= end:
            break
        while aborted and aborted[0].first_offset <= header.last_offset:
            ongoing.add(aborted.pop(0).producer_id)
        if header.is_control:
            for record in read_records(data, position, header):
                if record.key == b"\0\0\0\0":
                    ongoing.discard(header.producer_id)
            continue
        if committed_only and header.is_transactional and header.producer_id in ongoing:
            continue
        found += read_records(data, position, header)
    return found
