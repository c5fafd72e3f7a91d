"""How a handler says "not yet": plain data, which server/waiting.py alone parks and wakes."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

# Woken with every new image of the metadata.
METADATA_CHANGED = "metadata changed"

# How long a wait lasts that only its keys are to end: nobody waits for a century.
NEVER_MS = 100 * 365 * 24 * 3600 * 1000


class Wait(NamedTuple):
    """An answer that is not there yet.

    `again(expired)` is asked whenever one of `keys` is woken, and once with True when the deadline has passed; it returns the response, or None
    for "still not". After the deadline it must return a response.
    """

    keys: tuple[Hashable, ...]
    deadline_ms: int  # absolute, of the same clock as the request's now_ms
    again: Callable[[bool], Any]
