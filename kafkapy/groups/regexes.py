"""Subscriptions by regular expression: which topics match.

The patterns come from clients and run against every topic's name on the broker's only loop, so they run on RE2: its
time is linear in the name, its memory is bounded, and a pattern that cannot be compiled within the bound is refused.
Apache Kafka uses RE2/J, so the syntax is the same too. See decisions/ for what else was considered. The whole name
must match; internal topics match like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from kafkapy.errors import ErrorCode, KafkaError

# What one compiled pattern may use. RE2's own default is eight times as much; a pattern of a few hundred characters
# takes some ten kilobytes.
PATTERN_BYTES_MAX = 1024 * 1024

# Compiled patterns that are kept: a group's members share one, and it is asked for at each change of the topics.
PATTERNS_KEPT_MAX = 128


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def compile_pattern(regex: str) -> Any:
    """The compiled pattern, or INVALID_REGULAR_EXPRESSION."""
    # Imported with the first pattern that anybody subscribes to: most brokers never see one.
    import re2

    options = re2.Options()
    options.max_mem = PATTERN_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else error
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
        ) from None


def matching_topics(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the pattern matches as a whole."""
    match = compile_pattern(regex).fullmatch
    return frozenset(name for name in names if match(name) is not None)
