"""kafka-python, the pure Python client, in a virtual environment of its own."""

CLIENT = "kafka-python"
VERSION = "3.0.12"


def version() -> str:
    """The pinned one."""
    return VERSION
