"""franz-go, a client in Go. Its version is pinned by go.mod."""

import re
from pathlib import Path

CLIENT = "franz-go (Go)"


def version() -> str:
    """What go.mod asks for."""
    found = re.search(r"github.com/twmb/franz-go (v\S+)", Path(__file__).with_name("go.mod").read_text())
    return found[1] if found else "unknown"
