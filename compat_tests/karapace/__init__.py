"""karapace, a schema registry that keeps its schemas in a compacted topic; its releases are on GitHub alone."""

CLIENT = "karapace (schema registry)"
VERSION = "5.0.3"


def version() -> str:
    """The pinned one."""
    return VERSION
