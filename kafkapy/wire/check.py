"""The logic behind `kafkapy wire check` and `kafkapy wire decode`."""

from __future__ import annotations

import importlib

from kafkapy.wire.schema import Message

# The sets of struct vectors, and where their classes are declared.
STRUCT_MODULES = {
    "header": ("kafkapy.wire.header",),
    "data": ("kafkapy.wire.protocol_data",),
    "group": (
        "kafkapy.wire.group_records",
        "kafkapy.wire.consumer_group_records",
        "kafkapy.wire.share_group_records",
        "kafkapy.wire.streams_group_records",
    ),
    "transaction": ("kafkapy.wire.transaction_records",),
    "share": ("kafkapy.wire.share_records",),
    "metadata": ("kafkapy.wire.metadata_records",),
}


def struct_class(set_: str, name: str) -> type[Message]:
    """The class of that name in one of the sets; KeyError if there is none."""
    for module_name in STRUCT_MODULES[set_]:
        cls = getattr(importlib.import_module(module_name), name, None)
        if cls is not None:
            found: type[Message] = cls
            return found
    raise KeyError(name)
