"""All logs of a broker: folders, locks, checkpoints, clean and unclean stops, on real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.errors import KafkaError, StorageError
from kafkapy.log.data_folder import deleted_folder_name, parse_partition_folder, remove_folder
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.log.log import Log
from kafkapy.log.manager import LogManager
from kafkapy.types import TopicPartition
from tests.log.support import NAME, NOW_MS, TOPIC_ID, append, batch, config, offsets_of, read_all

CLUSTER = "Jh0DQwl8Rny3nqwV4TBuEQ"


def uuids() -> Callable[[], bytes]:
    """Uuids that a test can foresee."""
    numbers = iter(range(1, 100))
    return lambda: bytes([next(numbers)] * 16)


def started(*paths: Path, node_id: int = 1, cluster: str = CLUSTER) -> LogManager:
    manager = LogManager([str(path) for path in paths])
    try:
        manager.load(node_id, cluster, uuids())
    except StorageError:
        manager.unlock()
        raise
    return manager


def get(manager: LogManager, name: TopicPartition = NAME, **settings: object) -> Log:
    return manager.get(name, config(**settings), TOPIC_ID, NOW_MS)


def killed(manager: LogManager) -> None:
    """What the system does with a process's descriptors; nothing is written."""
    manager.pool.close_all()
    manager.unlock()


def test_partitions_come_back_after_a_clean_stop(tmp_path: Path) -> None:
    """Nothing is opened at the start; what is touched is there."""
    manager = started(tmp_path / "a")
    assert offsets_of(read_all(get(manager))) == []
    append(get(manager), batch(5))
    manager.close(NOW_MS, broker_epoch=8, high_watermarks={NAME: 5})
    again = started(tmp_path / "a")
    assert again.partitions() == [NAME] and again.logs == {} and again.needing_recovery() == []
    assert again.folders[0].clean and again.folders[0].stopped_broker_epoch == 8
    assert again.high_watermark(NAME) == 5 and again.stored_topic_id(NAME) == TOPIC_ID
    assert offsets_of(read_all(get(again))) == [0, 1, 2, 3, 4]
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    killed(again)


def test_unclean_stop_names_the_logs_that_need_recovery(tmp_path: Path) -> None:
    """They are recovered off the loop and adopted, or when they are touched."""
    manager = started(tmp_path)
    for partition in range(3):
        append(get(manager, TopicPartition("t", partition)), batch(2))
    get(manager, TopicPartition("t", 0)).flush(NOW_MS)
    manager.write_checkpoints()
    killed(manager)
    again = started(tmp_path)
    names = sorted(again.needing_recovery())
    assert names == [TopicPartition("t", partition) for partition in range(3)]
    assert again.folders[0].recovery_points[names[0]] == 2
    log = again.recover(names[1], config(), TOPIC_ID, NOW_MS)
    again.adopt(log)
    assert again.logs[names[1]] is log and log.pool is again.pool
    append(log, batch(1))
    assert offsets_of(read_all(log)) == [0, 1, 2]
    assert offsets_of(read_all(get(again, names[2]))) == [0, 1]
    assert again.needing_recovery() == [names[0]]
    again.close(NOW_MS)
    third = started(tmp_path)
    assert third.needing_recovery(), "a log that was never checked must not be taken for clean"
    killed(third)


def test_second_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    """Two brokers on one folder would destroy it."""
    manager = started(tmp_path)
    with pytest.raises(StorageError, match="in use by another process"):
        LogManager([str(tmp_path)])
    killed(manager)
    killed(started(tmp_path))


@pytest.mark.parametrize("node_id,cluster", [(2, CLUSTER), (1, "another-cluster-id-000")])
def test_folder_of_another_node_or_cluster_is_refused(tmp_path: Path, node_id: int, cluster: str) -> None:
    """The message names the key that differs."""
    killed(started(tmp_path))
    with pytest.raises(StorageError, match="belongs to"):
        started(tmp_path, node_id=node_id, cluster=cluster)


def test_directory_id_is_kept(tmp_path: Path) -> None:
    """A data folder has one for life."""
    first = started(tmp_path)
    directory_id = first.folders[0].directory_id
    killed(first)
    again = started(tmp_path)
    assert again.folders[0].directory_id == directory_id == bytes([1] * 16)
    killed(again)


def test_new_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    """With several data folders; none may be in two."""
    manager = started(tmp_path / "a", tmp_path / "b")
    for partition in range(4):
        get(manager, TopicPartition("t", partition))
    assert [folder.partition_count for folder in manager.folders] == [2, 2]
    manager.close(NOW_MS)
    (tmp_path / "a" / "x-0").mkdir()
    (tmp_path / "b" / "x-0").mkdir()
    with pytest.raises(StorageError, match="also in"):
        started(tmp_path / "a", tmp_path / "b")


def test_deleted_partition_is_renamed_and_its_folder_removed_by_the_shell(tmp_path: Path) -> None:
    """The name is free at once; a start that finds the renamed folder hands it on."""
    manager = started(tmp_path)
    append(get(manager), batch(5))
    path = manager.delete(NAME, b"\xab" * 16)
    assert path == f"{tmp_path}/orders-0.{'ab' * 16}-delete"
    assert not manager.contains(NAME) and manager.delete(NAME, b"\xab" * 16) is None
    assert get(manager).log_end_offset == 0
    manager.close(NOW_MS)
    again = started(tmp_path)
    assert again.deleted_folders == [path] and again.partitions() == [NAME]
    remove_folder(OsFilesystem(), path)
    assert not Path(path).exists()
    killed(again)


def test_remade_partition_does_not_inherit_offsets(tmp_path: Path) -> None:
    """A recovery point of the earlier one would look like damage after a kill."""
    manager = started(tmp_path)
    append(get(manager), batch(50))
    get(manager).flush(NOW_MS)
    get(manager).maybe_increment_log_start_offset(20)
    manager.write_checkpoints({NAME: 50})
    manager.delete(NAME, b"\xab" * 16)
    append(get(manager), batch(2))
    killed(manager)
    again = started(tmp_path)
    assert (again.high_watermark(NAME), get(again).log_end_offset, get(again).log_start_offset) == (0, 2, 0)
    killed(again)


def test_log_start_within_a_segment_survives(tmp_path: Path) -> None:
    """DeleteRecords is remembered by the checkpoint, also by one written while the log is not open."""
    manager = started(tmp_path)
    append(get(manager), batch(10))
    get(manager).maybe_increment_log_start_offset(4)
    manager.close(NOW_MS)
    again = started(tmp_path)
    again.close(NOW_MS)
    third = started(tmp_path)
    assert get(third).log_start_offset == 4
    with pytest.raises(KafkaError):
        get(third).read(3, 100)
    killed(third)


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
)
@pytest.mark.parametrize("content", [None, b"", b"\0" * 40, b"0\n1\n"])
def test_lost_and_damaged_checkpoints_cost_time_and_no_data(tmp_path: Path, name: str, content: bytes | None) -> None:
    """Recovery reads more; everything written is served."""
    manager = started(tmp_path)
    append(get(manager), batch(5))
    get(manager).flush(NOW_MS)
    manager.write_checkpoints({NAME: 5})
    killed(manager)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    again = started(tmp_path)
    assert offsets_of(read_all(get(again))) == [0, 1, 2, 3, 4]
    killed(again)


def test_truncation_lowers_the_recovery_point_on_disk_first(tmp_path: Path) -> None:
    """Else a kill between would leave a log that ends before what it claims to have flushed."""
    manager = started(tmp_path)
    for _ in range(5):
        append(get(manager), batch(2))
    get(manager).flush(NOW_MS)
    manager.write_checkpoints()
    manager.before_truncation(NAME, 4)
    get(manager).truncate_to(4, NOW_MS)
    killed(manager)
    again = started(tmp_path)
    assert get(again).log_end_offset == 4
    killed(again)


def test_failed_log_keeps_its_folder_from_being_marked_clean(tmp_path: Path) -> None:
    """After a disk error the next start must look at everything."""
    manager = started(tmp_path)
    append(get(manager), batch(5))
    get(manager).failure = StorageError("x", "Input/output error")
    manager.close(NOW_MS)
    again = started(tmp_path)
    assert not again.folders[0].clean and offsets_of(read_all(get(again))) == [0, 1, 2, 3, 4]
    killed(again)


def test_names_of_folders() -> None:
    """topic-partition, where the topic may have dashes; a deleted one is cut to what a file system allows."""
    assert parse_partition_folder("a-b-12") == TopicPartition("a-b", 12)
    assert parse_partition_folder("__cluster_metadata-0") == TopicPartition("__cluster_metadata", 0)
    for other in ("a", "-0", "a-", "a-b", "a-1.0123-delete", "remote-log-index-cache"):
        assert parse_partition_folder(other) is None
    name = deleted_folder_name(TopicPartition("t" * 249, 7), b"\x01" * 16)
    assert len(name) == 255 and name.endswith(f"t-7.{'01' * 16}-delete")


def test_many_partitions_start_without_being_opened(tmp_path: Path) -> None:
    """Idle partitions hold no descriptors; those that were touched keep to the bound."""
    manager = LogManager([str(tmp_path)], open_files_limit=10)
    manager.load(1, CLUSTER, uuids())
    for partition in range(100):
        append(get(manager, TopicPartition("t", partition)), batch())
    assert manager.pool.open_count <= 10
    manager.close(NOW_MS)
    again = started(tmp_path)
    assert len(again.partitions()) == 100 and again.pool.open_count == 0
    for name in again.partitions():
        assert get(again, name).log_end_offset == 1
    killed(again)
