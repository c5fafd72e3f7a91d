"""Two brokers' notes side by side: what differs, and what of it is known and allowed."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

ABSENT = "(absent)"


class Allowed(NamedTuple):
    """Differences that are there on purpose: in which cases, under which labels and paths, and why."""

    case: str  # a shell pattern
    where: str  # a regular expression for "label: path", matched from its beginning
    reason: str


class Difference(NamedTuple):
    """One field that is not the same."""

    case: str
    label: str
    path: str
    kafka: Any
    kafkapy: Any
    allowed: Allowed | None


def compare(
    case: str, kafka: list[tuple[str, Any]], kafkapy: list[tuple[str, Any]], allowed: list[Allowed]
) -> Iterator[Difference]:
    """All differences between the notes that one case made of two brokers."""
    theirs, ours = _numbered(kafka), _numbered(kafkapy)
    for label in dict.fromkeys([*theirs, *ours]):
        for path, one, other in _differences(theirs.get(label, ABSENT), ours.get(label, ABSENT), ""):
            yield Difference(case, label, path, one, other, _find(allowed, case, f"{label}: {path}"))


def _numbered(notes: list[tuple[str, Any]]) -> dict[str, Any]:
    """Notes by label; a label that comes again gets a number."""
    found: dict[str, Any] = {}
    for label, value in notes:
        key, number = label, 1
        while key in found:
            number += 1
            key = f"{label} #{number}"
        found[key] = value
    return found


def _differences(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _differences(one.get(key, ABSENT), other.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list):
        ones, others = _by_identity(one), _by_identity(other)
        for key in dict.fromkeys([*ones, *others]):
            yield from _differences(ones.get(key, ABSENT), others.get(key, ABSENT), f"{path}[{key}]")
    elif one != other:
        yield path, one, other


_IDENTITIES = (
    "apiKey",
    "name",
    "topic",
    "topicName",
    "partitionIndex",
    "index",
    "partition",
    "groupId",
    "key",
    "nodeId",
    "entityType",
    "resourceName",
)


def _by_identity(values: list[Any]) -> dict[Any, Any]:
    """Elements by what they are about, because Kafka's order is that of its hash tables; by position where nothing says."""
    found: dict[Any, Any] = {}
    for position, value in enumerate(values):
        name = _identity(value) if isinstance(value, dict) else None
        key = str(position) if name is None else name
        while key in found:
            key += "+"
        found[key] = value
    return found


def _identity(value: dict[str, Any]) -> str | None:
    if "entity" in value:  # A quota is about several things at once.
        return ",".join(sorted(f"{part['entityType']}={part['entityName']}" for part in value["entity"]))
    names = [str(value[key]) for key in _IDENTITIES if value.get(key) is not None]
    return "/".join(names) if names else None


def _find(allowed: list[Allowed], case: str, where: str) -> Allowed | None:
    for entry in allowed:
        if fnmatch.fnmatch(case, entry.case) and re.match(entry.where, where):
            return entry
    return None
