"""Runs an example as it stands, and kills its process at one point: crashing.py EXAMPLE CLASS.METHOD before|after COUNT ARGUMENTS...

The point is just before, or just after, the so-many-th call of a client's method. SIGKILL leaves no time for anything.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

import confluent_kafka


def die_at(client: type, method: str, when: str, count: int) -> type:
    """The client's class, but one of the calls is its last."""
    original = getattr(client, method)
    calls = 0

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if isinstance(self, confluent_kafka.Producer):
            self.flush()  # so that the crash meets records that the broker has
        if calls == count and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(self, *args, **kwargs)
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return type(client.__name__, (client,), {method: call})


if __name__ == "__main__":
    example, point, when, count, *sys.argv[1:] = sys.argv[1:]
    name, _, method = point.partition(".")
    setattr(confluent_kafka, name, die_at(getattr(confluent_kafka, name), method, when, int(count)))
    runpy.run_path(example, run_name="__main__")
