"""rskafka, a client in Rust. Its version is pinned by Cargo.toml, and those of all it needs by Cargo.lock."""

import re
from pathlib import Path

CLIENT = "rskafka (Rust)"


def version() -> str:
    """What Cargo.toml asks for."""
    found = re.search(r'^rskafka = "=(.+)"', Path(__file__).with_name("Cargo.toml").read_text(), re.MULTILINE)
    return found[1] if found else "unknown"
