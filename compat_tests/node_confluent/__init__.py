"""Confluent's client for Node, librdkafka under an interface like that of kafkajs. Its version is pinned by package.json.

Its native part is downloaded, or built with a C++ compiler where it cannot be.
"""

import json
from pathlib import Path

CLIENT = "confluent-kafka-javascript (Node)"


def version() -> str:
    """What package.json asks for."""
    packages = json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"]
    return str(packages["@confluentinc/kafka-javascript"])
