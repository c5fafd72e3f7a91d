"""kafkajs, the client in pure JavaScript. Its version is pinned by package.json."""

import json
from pathlib import Path

CLIENT = "kafkajs (Node)"


def version() -> str:
    """What package.json asks for."""
    return str(json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"]["kafkajs"])
