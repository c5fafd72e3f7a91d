"""`kafkapy format`: folders get their marks, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.log.checkpoints import read_meta_properties
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.raft.voter_identity import VoterIdentity
from kafkapy.raft.voter_session import Standing
from tests.cli.runner import run

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
VOTERS = "1@localhost:9093,2@localhost:9193,3@localhost:9293"


def meta(folder: Path) -> dict[str, str]:
    """What marks a folder."""
    properties = read_meta_properties(OsFilesystem(), str(folder))
    assert properties is not None
    return properties


@pytest.fixture
def controller(tmp_path: Path) -> Path:
    """The configuration of a controller among three, with its data in `data`."""
    path = tmp_path / "controller.properties"
    path.write_text(
        f"process.roles=controller\nnode.id=2\ncontroller.quorum.voters={VOTERS}\ncontroller.listener.names=C\n"
        f"listeners=C://localhost:9193\nlistener.security.protocol.map=C:PLAINTEXT\nlog.dirs={tmp_path / 'data'}\n"
    )
    return path


def test_the_cluster_id_is_printed_and_written(tmp_path: Path) -> None:
    """As given, or drawn; each folder has an id of its own."""
    folders = [tmp_path / "a", tmp_path / "b"]
    result = run("format", "-d", ",".join(map(str, folders)), "--cluster-id", CLUSTER_ID)
    assert (result.code, result.out) == (0, CLUSTER_ID + "\n")
    properties = [meta(folder) for folder in folders]
    assert [one["cluster.id"] for one in properties] == [CLUSTER_ID, CLUSTER_ID]
    assert properties[0]["directory.id"] != properties[1]["directory.id"]
    drawn = run("format", "-d", str(tmp_path / "c")).out.strip()
    assert meta(tmp_path / "c")["cluster.id"] == drawn != CLUSTER_ID


def test_a_formatted_folder_is_left_alone(tmp_path: Path) -> None:
    """Without --ignore-formatted it is an error, with it the other folders are formatted for the same cluster."""
    run("format", "-d", str(tmp_path / "a"), "-t", CLUSTER_ID)
    before = meta(tmp_path / "a")
    refused = run("format", "-d", str(tmp_path / "a"))
    assert refused.code == 1 and "--ignore-formatted" in refused.err
    both = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    assert run("format", "-d", both, "--ignore-formatted").out == CLUSTER_ID + "\n"
    assert meta(tmp_path / "a") == before
    other = run("format", "-d", both, "-g", "-t", "AAAAAAAAQACAAAAAAAAAAQ")
    assert other.code == 1 and CLUSTER_ID in other.err


def test_controllers_of_one_list_come_to_one_id(controller: Path, tmp_path: Path) -> None:
    """Nobody has to carry the id from host to host."""
    first = run("format", "-c", str(controller)).out
    second = run("format", "-c", str(controller), "-d", str(tmp_path / "other"), "-s", "node.id=3").out
    assert first == second != ""
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()


def test_rejoin_marks_a_controller_that_has_lost_its_disk(controller: Path, tmp_path: Path) -> None:
    """It will be sent everything before it counts; a folder that it was formatted in by itself meanwhile is no hindrance."""
    folder = tmp_path / "data" / "__cluster_metadata-0"
    assert run("format", "-c", str(controller)).code == 0
    assert run("format", "-c", str(controller), "--rejoin").code == 0
    assert VoterIdentity(str(folder)).standing is Standing.REJOINING


def test_join_makes_a_newcomer(controller: Path, tmp_path: Path) -> None:
    """It has the cluster's id and still waits for the others, who have the history."""
    assert run("format", "-c", str(controller), "-t", CLUSTER_ID, "--join").out == CLUSTER_ID + "\n"
    assert VoterIdentity(str(tmp_path / "data" / "__cluster_metadata-0")).standing is Standing.NEWCOMER


def test_rejoin_is_refused_where_nothing_is_lost(controller: Path, tmp_path: Path) -> None:
    """A member with its journal would only give up its vote."""
    folder = tmp_path / "data" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / "quorum.journal").write_bytes(b"")
    refused = run("format", "-c", str(controller), "--rejoin")
    assert refused.code == 1 and "without --rejoin" in refused.err
    alone = run("format", "-d", str(tmp_path / "alone"), "--rejoin")
    assert alone.code == 1 and "among several" in alone.err


def test_a_cluster_id_that_is_none_is_refused(tmp_path: Path) -> None:
    """In one line, and nothing is written."""
    result = run("format", "-d", str(tmp_path / "a"), "-t", "my-cluster")
    assert result.code == 1 and "--cluster-id" in result.err
    assert not (tmp_path / "a" / "meta.properties").exists()
