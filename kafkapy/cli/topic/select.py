"""Which topics a command means: names, or with --regex patterns that a whole name must match."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from kafkapy.client.client import Client
from kafkapy.errors import ErrorCode, KafkaError

regex_option = click.option(
    "-r", "--regex", is_flag=True, help="Take each TOPIC as a regular expression for whole names."
)


def topic_names(client: Client, words: Sequence[str], regex: bool, *, internal: bool = False) -> list[str]:
    """The topics that are meant, in order. A pattern never means internal topics unless it is asked to."""
    if not regex:
        return list(dict.fromkeys(words))
    try:
        patterns = [re.compile(word) for word in words]
    except re.error as error:
        raise click.UsageError(f"{error.pattern!r} is no regular expression: {error}") from None
    found = [
        topic.name
        for topic in client.metadata().topics
        if topic.name and (internal or not topic.is_internal) and any(p.fullmatch(topic.name) for p in patterns)
    ]
    if not found:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic matches {', '.join(words)}")
    return sorted(found)
