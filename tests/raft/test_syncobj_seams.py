"""The seams through which our own parts go into pysyncobj: another version moves them, and then these tests say where."""

from __future__ import annotations

import inspect
import pathlib
import re

import pysyncobj.syncobj as original
from pysyncobj.config import FAIL_REASON, SERIALIZER_STATE
from pysyncobj.journal import Journal
from pysyncobj.serializer import Serializer
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

import kafkapy
from kafkapy.raft import syncobj_quorum
from kafkapy.raft.entries import SnapshotFile


def test_the_version_is_the_one_that_was_read() -> None:
    """All that is said of the core's behaviour holds for this version."""
    assert VERSION == syncobj_quorum.PINNED_VERSION


def test_the_copy_is_patched_and_the_original_is_not() -> None:
    """Another user of pysyncobj in this process keeps pickle and its own journal."""
    private = syncobj_quorum._pysyncobj()
    assert private is not original
    assert private.pickle is not original.pickle
    assert private.createJournal is not original.createJournal
    for verb in ("dumps", "loads"):
        try:
            getattr(private.pickle, verb)(b"")
        except RuntimeError as error:
            assert "pickle is not used" in str(error)
        else:
            raise AssertionError("pickle works")


def test_the_core_uses_what_is_patched() -> None:
    """The names are read from the module, and nowhere else is a journal made or a command opened."""
    source = inspect.getsource(original.SyncObj)
    assert source.count("createJournal(") == 1
    assert "self.__doApplyCommand(entry[0])" in source
    assert "self.__serializer.serialize((data, lastAppliedEntries[1], lastAppliedEntries[0], cluster)" in source
    assert "self.__raftLog.setRaftCommitIndex(self.__raftCommitIndex)" in source
    assert "self.__raftLog.setCurrentTerm(term, votedForNodeId)" in source


def test_the_commit_index_is_told_before_anything_is_applied() -> None:
    """The journal syncs there, so an entry is on the leader's disk before it counts."""
    source = inspect.getsource(original.SyncObj._onTick)
    assert source.index("setRaftCommitIndex") < source.index("__applyLogEntries()", source.index("setRaftCommitIndex"))
    assert source.index("self.__applyLogEntries()\n\n        if self.__raftState") > source.index("setRaftCommitIndex")


def test_the_journal_seam_has_all_that_the_core_calls() -> None:
    """Every method of the interface is ours."""
    seam = syncobj_quorum._journal_seam()
    names = [name for name, member in vars(Journal).items() if inspect.isfunction(member)]
    assert {"add", "clear", "deleteEntriesFrom", "deleteEntriesTo", "setCurrentTerm", "onOneSecondTimer"} <= set(names)
    instance_names = set(inspect.getsource(seam.__init__).replace("self.", " ").split())
    for name in names:
        assert name in vars(seam) or name in instance_names, name


def test_the_core_renames_only_its_own_name() -> None:
    """It moves `<snapshot>.tmp` into place right after it has asked for a snapshot, so nobody else may write a file of that name."""
    source = inspect.getsource(Serializer)
    assert source.count("+ '.tmp'") == 1
    assert source.count("+ '.1.tmp'") == 1
    assert "atomicReplace(tmpFile, self.__fileName)" in source
    assert '.new"' in inspect.getsource(SnapshotFile.write)


def test_the_private_names_are_there() -> None:
    """The method that is overridden and the attributes that are read."""
    source = inspect.getsource(original.SyncObj)
    assert hasattr(original.SyncObj, "_SyncObj__doApplyCommand")
    for name in ("self.__raftLog = ", "self._poller = ", "def forceLogCompaction", "def raftCommitIndex"):
        assert name in source, name
    assert hasattr(Transport, "_onMessageReceived")
    assert original._RAFT_STATE.LEADER == syncobj_quorum.LEADER
    assert (SERIALIZER_STATE.NOT_SERIALIZING, SERIALIZER_STATE.SUCCESS) == (0, 2)
    assert FAIL_REASON.SUCCESS == 0


def test_nothing_else_imports_pysyncobj() -> None:
    """One file stands between the core and the rest."""
    package = pathlib.Path(kafkapy.__file__).parent
    imports = re.compile(r"^\s*(import|from) pysyncobj", re.MULTILINE)
    users = [path.name for path in package.rglob("*.py") if imports.search(path.read_text())]
    assert users == ["syncobj_quorum.py"]
