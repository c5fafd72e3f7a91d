"""aiokafka, the asyncio client, in a virtual environment of its own."""

CLIENT = "aiokafka"
VERSION = "0.14.0"


def version() -> str:
    """The pinned one."""
    return VERSION
