"""Bytes that are no request, and requests that are cut off."""

from __future__ import annotations

import struct

from compat_tests.differential.cases import case
from compat_tests.differential.probe import Probe
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.metadata import MetadataRequest
from tests.support.requests import fetch, fetch_partition, metadata
from tests.support.wire_client import encode, frame, header


@case
def frames_that_are_none(probe: Probe) -> None:
    for label, data in {
        "size 0": struct.pack(">i", 0),
        "size -1": struct.pack(">i", -1),
        "size min": struct.pack(">i", -(2**31)),
        "size one too many": struct.pack(">i", 104857601),
        "size max": struct.pack(">i", 2**31 - 1),
        "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
        "one byte": frame(b"\0"),
        "seven bytes": frame(bytes(7)),
        "eight bytes": frame(bytes(8)),
        "nine bytes": frame(bytes(9)),
        "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    }.items():
        probe.ask_bytes(label, data)


@case
def frames_of_unknown_keys(probe: Probe) -> None:
    for key in (-1, 4, 5, 6, 7, 93, 99, 1000, 32767, -32768):
        probe.ask_bytes(f"key {key}", frame(header(key, 0) + bytes(20)))


@case
def frames_of_controller_keys(probe: Probe) -> None:
    for key in (52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82):
        probe.ask_bytes(f"key {key}", frame(header(key, API_BY_KEY[key].versions.first) + bytes(20)))


@case
def frames_of_unknown_versions(probe: Probe) -> None:
    for key in (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 22, 32, 60, 75):
        versions = API_BY_KEY[key].versions
        for version in (-1, versions.first - 1, versions.last + 1, 99):
            probe.ask_bytes(f"key {key} version {version}", frame(header(key, version) + bytes(20)))


@case
def frames_cut_off(probe: Probe) -> None:
    for label, request, version in (
        ("metadata", metadata("some-topic", create=True), 1),
        ("metadata", metadata("some-topic"), 12),
        ("fetch", fetch("some-topic", fetch_partition()), 4),
        ("fetch", fetch("some-topic", fetch_partition()), 12),
    ):
        whole = encode(request, version)[4:]
        for end in range(11, len(whole), 7):
            probe.ask_bytes(f"{label} v{version} {end} of {len(whole)}", frame(whole[:end]))


@case
def frames_with_bytes_behind(probe: Probe) -> None:
    for version in (1, 9, 12):
        whole = encode(MetadataRequest(topics=[]), version)[4:]
        probe.ask_bytes(f"v{version}", frame(whole + b"extra"))


@case
def frames_with_hostile_lengths(probe: Probe) -> None:
    for label, body in {
        "array -2": struct.pack(">i", -2),
        "array max": struct.pack(">i", 2**31 - 1),
        "array 1000": struct.pack(">i", 1000),
        "string -2": struct.pack(">ih", 1, -2),
        "string null": struct.pack(">ih", 1, -1),
        "string max": struct.pack(">ih", 1, 32767),
        "string not utf-8": struct.pack(">ih", 1, 2) + b"\xff\xfe",
    }.items():
        probe.ask_bytes(f"v1 {label}", frame(header(3, 1) + body))
    for label, body in {
        "array huge": b"\xff\xff\xff\xff\x0f",
        "array varint too long": b"\xff\xff\xff\xff\xff\xff\x01",
        "string huge": b"\x02\xff\xff\xff\xff\x0f",
        "string null": b"\x02\0\0\0\0\0",
        "tags huge": b"\x01\0\0\xff\xff\xff\xff\x0f",
        "tag twice": b"\x01\0\0\x02\x63\x01x\x63\x01y",
        "tags unknown": b"\x01\0\0\0\x01\x63\x01x",
        "tag longer than the frame": b"\x01\0\0\0\x01\x63\x7fx",
    }.items():
        probe.ask_bytes(f"v9 {label}", frame(header(3, 9) + b"\0" + body))
    for label, tags in {
        "header tag": b"\x01\x05\x01x",
        "header tags huge": b"\xff\xff\xff\xff\x0f",
        "header tag cut": b"\x01\x05\x7f",
    }.items():
        probe.ask_bytes(label, frame(header(3, 9) + tags + b"\x01\0\0\0\0"))


@case
def frames_with_client_ids(probe: Probe) -> None:
    body = struct.pack(">i", 0)
    for label, name in {
        "null": b"\xff\xff",
        "empty": b"\0\0",
        "negative": b"\xff\xfe",
        "too long": b"\x7f\xff",
        "not utf-8": b"\0\x02\xff\xfe",
    }.items():
        probe.ask_bytes(label, frame(struct.pack(">hhi", 3, 1, 1) + name + body))


@case
def frames_pipelined(probe: Probe) -> None:
    """Answers come in the order of the requests."""
    requests = [metadata("nowhere"), fetch("nowhere", fetch_partition()), metadata(), metadata("nowhere")]
    for request in requests:
        probe.wire.send(request, 12)
    for number, _ in enumerate(requests):
        probe.note(f"answer {number}", probe.wire.receive().to_json(12))
