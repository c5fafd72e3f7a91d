"""The small text files beside the logs, in Kafka's formats. All are replaced in one step: written anew, flushed, renamed.

In each data folder (the name says which offset of every partition it holds):

    recovery-point-offset-checkpoint      everything before it is on disk; recovery begins here
    log-start-offset-checkpoint           where DeleteRecords or retention moved the start inside a segment
    replication-offset-checkpoint         the high watermark

        0                                 version
        2                                 number of lines that follow
        orders 0 1042                     topic, partition, offset
        orders 1 17

    .kafka_cleanshutdown                  {"version":0,"brokerEpoch":12}; there only between a clean stop and the next start
    meta.properties                       whose folder this is:
        version=1
        cluster.id=Jh0DQwl8Rny3nqwV4TBuEQ
        directory.id=E4ZTTPIPjcIVDIQjrjkGgw
        node.id=1

In each partition folder:

    partition.metadata
        version: 0
        topic_id: c3Yd1jzUQ0KDmLq1S5q7Tw
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

from kafkapy.errors import StorageError
from kafkapy.log.filesystem import Filesystem, read_file, replace_file, storage_errors, unlink_if_exists
from kafkapy.types import ZERO_UUID, TopicPartition

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
META_PROPERTIES_FILE = "meta.properties"
PARTITION_METADATA_FILE = "partition.metadata"
NO_BROKER_EPOCH = -1

_MATCHING_ESCAPES = {"\\:": ":", "\\=": "=", "\\\\": "\\"}


def format_uuid(uuid: bytes) -> str:
    """A uuid as Kafka writes it: base64url of its 16 bytes without padding."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a uuid as Kafka writes it; ValueError for anything else."""
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != len(ZERO_UUID):
        raise ValueError(f"{text!r} is no uuid")
    return uuid


# Offsets of partitions.


def encode_offsets(offsets: dict[TopicPartition, int]) -> bytes:
    """A checkpoint's text."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return "".join(["0\n", f"{len(lines)}\n", *lines]).encode()


def decode_offsets(path: str, data: bytes) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint's text, or StorageError."""
    offsets = {}
    try:
        version, count, *lines = data.decode().splitlines()
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        if int(version) != 0 or int(count) != len(lines):
            raise ValueError(f"version {version}, {count} lines announced and {len(lines)} found")
    except ValueError as error:
        raise StorageError(path, f"not an offset checkpoint: {error}") from error
    return offsets


def read_offsets(fs: Filesystem, path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; none when it is missing."""
    with storage_errors(path):
        try:
            data = read_file(fs, path)
        except FileNotFoundError:
            return {}
    return decode_offsets(path, data) if data else {}  # Kafka makes the files empty and fills them later.


def write_offsets(fs: Filesystem, path: str, offsets: dict[TopicPartition, int]) -> None:
    """Replace a checkpoint file."""
    with storage_errors(path):
        replace_file(fs, path, encode_offsets(offsets))


# The mark of a clean stop.


def read_clean_shutdown(fs: Filesystem, folder: str) -> int | None:
    """The broker epoch (-1 when unknown) of the clean stop; None when the last stop was not clean."""
    path = f"{folder}/{CLEAN_SHUTDOWN_FILE}"
    with storage_errors(path):
        try:
            data = read_file(fs, path)
        except FileNotFoundError:
            return None
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        # Before Kafka 3.8 the file was empty: its presence alone is the mark.
        return NO_BROKER_EPOCH
    return epoch if isinstance(epoch, int) else NO_BROKER_EPOCH


def write_clean_shutdown(fs: Filesystem, folder: str, broker_epoch: int) -> None:
    """The very last thing that a clean stop writes."""
    path = f"{folder}/{CLEAN_SHUTDOWN_FILE}"
    with storage_errors(path):
        replace_file(fs, path, json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode())


def remove_clean_shutdown(fs: Filesystem, folder: str) -> None:
    """From the first write on the next stop has to be clean anew."""
    path = f"{folder}/{CLEAN_SHUTDOWN_FILE}"
    with storage_errors(path):
        if unlink_if_exists(fs, path):
            fs.sync_folder(folder)


# Whose folder it is.


def encode_properties(properties: dict[str, str]) -> bytes:
    """Java's properties format, as far as these files need it."""
    lines = []
    for key in sorted(properties):
        value = properties[key].replace("\\", "\\\\").replace(":", "\\:").replace("=", "\\=")
        lines.append(f"{key}={value}\n")
    return "".join(lines).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """The keys and values of a properties file that Kafka or we wrote."""
    properties = {}
    for line in data.decode().splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            for escaped, plain in _MATCHING_ESCAPES.items():
                value = value.replace(escaped, plain)
            properties[key.strip()] = value.strip()
    return properties


def read_meta_properties(fs: Filesystem, folder: str) -> dict[str, str] | None:
    """The properties of a data folder; None when it is new."""
    path = f"{folder}/{META_PROPERTIES_FILE}"
    with storage_errors(path):
        try:
            data = read_file(fs, path)
        except FileNotFoundError:
            return None
    try:
        properties = decode_properties(data)
    except ValueError as error:
        raise StorageError(path, f"not a properties file: {error}") from error
    if properties.get("version") != "1":
        raise StorageError(path, f"version {properties.get('version')}; only folders of version 1 are supported")
    return properties


def write_meta_properties(fs: Filesystem, folder: str, cluster_id: str, node_id: int, directory_id: bytes) -> None:
    """Mark a data folder as this node's."""
    path = f"{folder}/{META_PROPERTIES_FILE}"
    properties = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": format_uuid(directory_id),
    }
    with storage_errors(path):
        replace_file(fs, path, encode_properties(properties))


# Whose partition it is.


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """The text of partition.metadata."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def decode_partition_metadata(path: str, data: bytes) -> bytes:
    """The topic id in the text of partition.metadata, or StorageError."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if fields["version"] != "0":
            raise ValueError(f"version {fields['version']}")
        return parse_uuid(fields["topic_id"])
    except (ValueError, KeyError) as error:
        raise StorageError(path, f"not a partition.metadata file: {error}") from error


def read_topic_id(fs: Filesystem, folder: str) -> bytes | None:
    """The topic id of a partition folder; None when it has none yet, or when a power loss left an empty file."""
    path = f"{folder}/{PARTITION_METADATA_FILE}"
    with storage_errors(path):
        try:
            data = read_file(fs, path)
        except FileNotFoundError:
            return None
    return decode_partition_metadata(path, data) if data.strip(b"\0") else None


def write_topic_id(fs: Filesystem, folder: str, topic_id: bytes) -> None:
    """Name the topic of a partition folder. The first flush of the log makes it durable."""
    path = f"{folder}/{PARTITION_METADATA_FILE}"
    with storage_errors(path):
        fd = fs.open(path)
        try:
            fs.pwrite(fd, encode_partition_metadata(topic_id), 0)  # There is no file yet, or an empty one.
        finally:
            fs.close(fd)
