"""Mutation fuzzing of everything that reads a peer's bytes: `python -m tests.fuzz [--seconds N] [--seed N]`.

Messages: random objects of every declaration and version are written, damaged and read again; the generated decoder must
return or raise ProtocolError, soon, and construct must come to the same verdict. Record batches: random batches of every codec
are damaged and read; only KafkaError may come out. A failure is printed with the bytes that repeat it.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time
import traceback
from collections.abc import Callable

import construct

from kafkapy.errors import KafkaError, ProtocolError
from kafkapy.wire.compression import Codec
from kafkapy.wire.record_batch import crc_is_valid, iterate_batches, set_crc
from kafkapy.wire.records import BatchBuilder, read_records
from kafkapy.wire.schema import Message
from tests.wire.catalog import declared_classes
from tests.wire.random_values import mutate, random_message

SLOW_S = 0.5
MAX_BATCH_BYTES = 1 << 20

Counter = collections.Counter[str]


class Failure(Exception):
    """Something else than the promised happened."""


def verdict_of_construct(cls: type[Message], version: int, raw: bytes) -> object:
    """The object that construct reads, or None."""
    try:
        return cls.construct(version).parse(raw)
    except construct.ConstructError:
        return None


def fuzz_message(rng: random.Random, counts: Counter, classes: list[tuple[type[Message], int]]) -> None:
    """Damage and read one message."""
    cls, version = rng.choice(classes)
    raw = mutate(random_message(cls, version, rng).encode(version), rng)
    padded = raw + bytes(rng.randrange(256) for _ in range(rng.choice((0, 40))))
    started = time.perf_counter()
    try:
        message = cls.decoder(version)(memoryview(padded), 0, len(raw))[0]
    except ProtocolError:
        message = None
    except Exception as error:
        raise Failure(f"{cls.__name__} {version}: {error!r} for {raw.hex()}") from error
    if time.perf_counter() - started > SLOW_S:
        raise Failure(f"{cls.__name__} {version}: slow for {raw.hex()}")
    counts["messages refused" if message is None else "messages read"] += 1
    other = verdict_of_construct(cls, version, raw)
    if message != other and repr(message) != repr(other):
        raise Failure(f"{cls.__name__} {version}: construct reads something else from {raw.hex()}")


def random_batch(rng: random.Random) -> bytes:
    """A record batch with a few records, of any codec."""
    builder = BatchBuilder(
        codec=rng.choice(list(Codec)), base_offset=rng.randrange(1000), producer_id=rng.randrange(-1, 9)
    )
    for number in range(rng.choice((1, 2, 20))):
        headers = [("name", rng.choice((None, b"", b"value")))] * rng.choice((0, 0, 1, 3))
        key = rng.choice((None, b"", b"key" * 3))
        builder.append(1_700_000_000_000 + number, key, rng.choice((None, b"value" * 9, rng.randbytes(60))), headers)
    return bytes(builder.build())


def fuzz_batch(rng: random.Random, counts: Counter) -> None:
    """Damage and read a record set, half of the time with a checksum that hides the damage."""
    raw = bytearray(b"".join(mutate(random_batch(rng), rng) for _ in range(rng.choice((1, 1, 2)))))
    if len(raw) > 61 and rng.random() < 0.5:
        size = int.from_bytes(raw[8:12], "big", signed=True) + 12
        if 61 <= size <= len(raw):
            set_crc(raw, 0, size)
    started = time.perf_counter()
    try:
        for position, header in iterate_batches(raw):
            crc_is_valid(raw, position, header)
            for _ in read_records(raw, position, header, MAX_BATCH_BYTES):
                counts["records read"] += 1
    except KafkaError:
        counts["record sets refused"] += 1
    except Exception as error:
        raise Failure(f"record set: {error!r} for {raw.hex()}") from error
    if time.perf_counter() - started > SLOW_S:
        raise Failure(f"record set: slow for {raw.hex()}")


def run(seconds: float, seed: int, echo: Callable[[str], object] = print) -> int:
    """Fuzz for so long; the number of failures."""
    rng = random.Random(seed)
    classes = [
        (cls, version)
        for cls in declared_classes()
        for version in range(cls.SCHEMA.versions.first, cls.SCHEMA.versions.last + 1)
    ]
    counts: Counter = collections.Counter()
    failures = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and failures < 10:
        try:
            if rng.random() < 0.7:
                fuzz_message(rng, counts, classes)
            else:
                fuzz_batch(rng, counts)
        except Failure as failure:
            failures += 1
            echo(str(failure))
            if failure.__cause__ is not None:
                echo("".join(traceback.format_exception(failure.__cause__, limit=-3)))
    echo(f"seed {seed}: {', '.join(f'{count} {what}' for what, count in sorted(counts.items()))}; {failures} failures")
    return failures


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Mutation fuzzing of the wire formats")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run (default: another one each time)")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    return 1 if run(options.seconds, seed) else 0


if __name__ == "__main__":
    sys.exit(main())
