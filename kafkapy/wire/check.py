"""The logic behind `kafkapy wire check` and `kafkapy wire decode`."""

from __future__ import annotations

# The sets of struct vectors, and where their classes are declared.
STRUCT_MODULES = {
    "header": "kafkapy.wire.header",
    "data": "kafkapy.wire.protocol_data",
    "group": "kafkapy.wire.group_records",
    "transaction": "kafkapy.wire.transaction_records",
    "share": "kafkapy.wire.share_records",
    "metadata": "kafkapy.wire.metadata_records",
}
