"""What an append is told and what it answers."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class AppendOrigin(Enum):
    """Who wrote the batch, which decides how far it is trusted."""

    CLIENT = "client"  # Everything is checked.
    COORDINATOR = "coordinator"  # Our own group and transaction coordinators: control batches allowed, no sequences.


class AppendInfo(NamedTuple):
    """Where the batch went. A duplicate is answered with where it went the first time."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1: the records keep the time that their producer gave them
    log_start_offset: int
    max_timestamp: int
    size: int
    duplicate: bool
