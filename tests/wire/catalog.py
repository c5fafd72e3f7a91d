"""Where the facts and vectors lie, and every declared class, for all tests of the wire layer."""

from __future__ import annotations

import functools
import gzip
import importlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.check import STRUCT_MODULES
from kafkapy.wire.schema import Message

PROTOCOL = Path(__file__).parents[3] / "shared" / "protocol"
HAS_FACTS = PROTOCOL.is_dir()


def facts(name: str) -> Any:
    """One of the fact tables."""
    return json.loads((PROTOCOL / name).read_text())


@functools.cache
def vectors(name: str) -> list[dict[str, Any]]:
    """The lines of one of the vector files; none where the folder is absent."""
    if not HAS_FACTS:
        return []
    with gzip.open(PROTOCOL / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def declared_classes() -> Iterator[type[Message]]:
    """Every request, response, record, header and free-standing structure that kafkapy declares."""
    for api in API_BY_KEY.values():
        yield api.request
        yield api.response
    for module_name in itertools.chain.from_iterable(STRUCT_MODULES.values()):
        module = importlib.import_module(module_name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Message) and value.__module__ == module_name:
                yield value
