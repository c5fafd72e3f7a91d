"""The process that compacts logs for a broker: CPU and disk work that would otherwise hold up the broker's one loop.

It is told what to do by lines of JSON on its standard input and answers with lines of JSON on its standard output:

    in     {"map_bytes":..., "segments":[...], ...}       a CompactionTask, and "bytes_per_second" for the throttle
    out    {"group":[[0,100],5000,false]}                 a CompactedGroup, complete on disk; any number of them
    out    {"done":[end offset, keys, ...]}               CompactionStats; or one of these, which also end the task:
           {"gone":"..."}                                 the log changed under the work: nothing is wrong
           {"damaged":"..."}                              the log cannot be compacted
           {"failed":["path","why"], "full":true}         the disk refused

It runs with the lowest priority, imports little, and ends when its input ends or its broker is gone. It never touches a file of the log:
all it leaves are `*.cleaned` files, which a start removes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from kafkapy.errors import StorageError
from kafkapy.log.compaction import Compaction, DamagedSourceError, SourceGoneError
from kafkapy.log.compaction_task import CompactionTask
from kafkapy.log.filesystem import DiskFullError, OsFilesystem

_NICENESS = 19
# So often the work looks whether the broker still lives, and how fast it is.
_STEP_BYTES = 1024 * 1024
# Being ahead by less is not worth a pause.
_AHEAD_S_MIN = 0.1
# And during a long pause it looks this often whether the broker still lives.
_NAP_S = 0.25


class BrokerGone(Exception):
    """There is nobody left to work for."""


class Pace:
    """Keeps the work to a rate, and ends it when the broker is gone."""

    __slots__ = ("_broker_pid", "_bytes", "_bytes_per_second", "_next_look", "_started")

    def __init__(self, bytes_per_second: float, broker_pid: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._broker_pid = broker_pid
        self._started = time.monotonic()
        self._bytes = 0
        self._next_look = 0

    def step(self, size: int) -> None:
        """So many bytes were read or written; 0: look now whether the broker still lives."""
        self._bytes += size
        if size and self._bytes < self._next_look:
            return
        self._next_look = self._bytes + int(min(_STEP_BYTES, max(1.0, self._bytes_per_second / 10)))
        ahead_s = self._bytes / self._bytes_per_second - (time.monotonic() - self._started)
        self._check_broker()
        while ahead_s > _AHEAD_S_MIN:
            nap_s = min(ahead_s, _NAP_S)
            time.sleep(nap_s)
            ahead_s -= nap_s
            self._check_broker()

    def _check_broker(self) -> None:
        """A process whose parent has died gets another one."""
        if os.getppid() != self._broker_pid:
            raise BrokerGone


def main(broker_pid: int) -> None:
    """Work until there is nobody left to work for."""
    os.nice(_NICENESS)
    answers = sys.stdout.buffer
    for line in sys.stdin.buffer:
        task = json.loads(line)
        pace = Pace(task.pop("bytes_per_second"), broker_pid)
        try:
            _work(CompactionTask.of(task), pace, answers)
        except SourceGoneError as error:
            _say(answers, {"gone": str(error)})
        except DamagedSourceError as error:
            _say(answers, {"damaged": str(error)})
        except StorageError as error:
            _say(answers, {"failed": [error.path, error.message], "full": isinstance(error, DiskFullError)})
        except (BrokerGone, BrokenPipeError):
            os._exit(0)


def _work(task: CompactionTask, pace: Pace, answers: Any) -> None:
    compaction = Compaction(task, OsFilesystem(), pace.step)
    for group in compaction.groups():
        _say(answers, {"group": group})
    _say(answers, {"done": compaction.stats})


def _say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    answers.flush()
