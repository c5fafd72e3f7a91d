"""Spark's built-in kafka source and sink, unmodified (kafka-clients 3.9 inside)."""

CLIENT = "Spark's kafka source and sink"
VERSION = "4.0.0"


def version() -> str:
    """The pinned one."""
    return VERSION
