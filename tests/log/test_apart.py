"""Making data folders and partitions cheaply, without anybody noticing a difference."""

from __future__ import annotations

import os
from pathlib import Path

from kafkapy.log.apart import make_folder_apart
from kafkapy.log.checkpoints import PARTITION_METADATA_FILE, read_topic_id
from kafkapy.log.data_folder import make_data_folder
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.log.manager import LogManager
from kafkapy.types import TopicPartition
from tests.log.support import config


def test_a_folder_apart_is_an_empty_folder_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    """Whatever is done to place it, one empty folder is there in the end."""
    make_folder_apart(str(tmp_path / "data"))
    assert os.listdir(tmp_path) == ["data"]
    assert os.listdir(tmp_path / "data") == []


def test_what_a_killed_start_left_is_no_hindrance(tmp_path: Path) -> None:
    """The folder in which the new one was to be born may be there already."""
    (tmp_path / "data.new").mkdir()
    make_folder_apart(str(tmp_path / "data"))
    assert (tmp_path / "data").is_dir()


def test_folders_above_are_made_and_a_folder_that_exists_is_kept(tmp_path: Path) -> None:
    """A second start finds what the first has made."""
    fs, path = OsFilesystem(), tmp_path / "a" / "b" / "data"
    make_data_folder(fs, f"{path}/")
    (path / "kept").touch()
    make_data_folder(fs, str(path))
    assert os.listdir(path) == ["kept"]


def test_partitions_of_a_topic_share_the_file_that_names_it(tmp_path: Path) -> None:
    """Deleting one of them leaves the file to the others."""
    logs = LogManager([str(tmp_path / "data")])
    logs.load(1, "cluster", lambda: bytes(16))
    topic_id = bytes(range(16))
    for number in range(3):
        logs.get(TopicPartition("t", number), config(), topic_id, 0)
    files = [tmp_path / "data" / f"t-{number}" / PARTITION_METADATA_FILE for number in range(3)]
    assert len({file.stat().st_ino for file in files}) == 1
    logs.delete(TopicPartition("t", 0), bytes(16))
    logs.get(TopicPartition("t", 3), config(), topic_id, 0)
    fs = OsFilesystem()
    for number in (1, 2, 3):
        assert read_topic_id(fs, str(tmp_path / "data" / f"t-{number}")) == topic_id
    logs.close(0)
