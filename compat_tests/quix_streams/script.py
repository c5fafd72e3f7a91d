"""`script.py BOOTSTRAP NAME SOURCE SINK STATE_FOLDER GUARANTEE`: counts the words of a topic into another one, until it is ended.

Runs in the client's own environment.
"""

from __future__ import annotations

import sys

from quixstreams import Application, State


def count(word: str, state: State) -> int:
    """How often this word has been seen; words are keys, so each has its own state."""
    seen = state.get("seen", 0) + 1
    state.set("seen", seen)
    return seen


def main(bootstrap: str, name: str, source: str, sink: str, folder: str, guarantee: str) -> None:
    # Each process has a transactional id of its own, so a killed one's offsets are pending until its transaction times out.
    application = Application(
        bootstrap,
        consumer_group=name,
        auto_offset_reset="earliest",
        commit_every=100,
        commit_interval=1.0,
        state_dir=folder,
        processing_guarantee=guarantee,
        consumer_poll_timeout=0.2,
        producer_extra_config={"transaction.timeout.ms": 10_000} if guarantee == "exactly-once" else None,
        consumer_extra_config={"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
    )
    words = application.topic(source, key_deserializer="str", value_deserializer="str")
    counts = application.topic(sink, key_serializer="str", value_serializer="json")
    stream = application.dataframe(words)
    stream.apply(count, stateful=True).to_topic(counts)
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
