"""quixstreams, stream processing in Python with state in RocksDB and changelog topics, in a virtual environment of its own."""

CLIENT = "quixstreams"
VERSION = "3.28.1"


def version() -> str:
    """The pinned one."""
    return VERSION
