"""The seams through which our own parts go into pysyncobj: another version moves them, and then these tests say where."""

from __future__ import annotations

import inspect
import pathlib
import re
import time

import pysyncobj.syncobj as original
from pysyncobj.config import FAIL_REASON, SERIALIZER_STATE
from pysyncobj.journal import Journal
from pysyncobj.serializer import Serializer
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

import kafkapy
from kafkapy.raft import syncobj_seams


def test_the_version_is_the_one_that_was_read() -> None:
    """All that is said of the core's behaviour holds for this version."""
    assert VERSION == syncobj_seams.PINNED_VERSION


def test_the_copy_is_patched_and_the_original_is_not() -> None:
    """Another user of pysyncobj in this process keeps pickle and its own journal."""
    private = syncobj_seams.load_core(time.monotonic, None)
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
    seam = syncobj_seams.journal_seam()
    names = [name for name, member in vars(Journal).items() if inspect.isfunction(member)]
    assert {"add", "clear", "deleteEntriesFrom", "deleteEntriesTo", "setCurrentTerm", "onOneSecondTimer"} <= set(names)
    instance_names = set(inspect.getsource(seam.__init__).replace("self.", " ").split())
    for name in names:
        assert name in vars(seam) or name in instance_names, name


def test_the_snapshot_seam_has_all_that_the_core_calls() -> None:
    """The core makes its own Serializer in one place, by this name, and calls nothing on it that ours doesn't have."""
    source = inspect.getsource(original.SyncObj)
    assert source.count("Serializer(") == 1
    called = set(re.findall(r"self\.__serializer\.(\w+)\(", source))
    public = {name for name, member in vars(Serializer).items() if inspect.isfunction(member) and name[0] != "_"}
    assert called == public
    assert all(hasattr(syncobj_seams.SnapshotSeam, name) for name in called)


def test_the_core_opens_no_pipe() -> None:
    """It would never close it; whoever makes many voters in one process would run out of descriptors."""
    source = inspect.getsource(original.SyncObj)
    assert source.count("PipeNotifier(") == source.count(
        "PIPE_NOTIFIER_ENABLED:\n            self.__pipeNotifier = PipeNotifier("
    )
    assert source.count("__pipeNotifier.notify()") == source.count(
        "PIPE_NOTIFIER_ENABLED:\n                self.__pipeNotifier.notify()"
    )


def test_messages_are_those_that_have_a_layout() -> None:
    """A message of the core that our codec doesn't know is one that we never let it send."""
    sent = set(re.findall(r"'type': '(\w+)'", inspect.getsource(original.SyncObj)))
    assert sent == syncobj_seams.transport_class().VERBS | {"apply_command", "apply_command_response"}


def test_the_private_names_are_there() -> None:
    """The method that is overridden and the attributes that are read."""
    source = inspect.getsource(original.SyncObj)
    assert hasattr(original.SyncObj, "_SyncObj__doApplyCommand")
    for name in ("self.__raftLog = ", "self._poller = ", "def forceLogCompaction", "def raftCommitIndex"):
        assert name in source, name
    ours = inspect.getsource(syncobj_seams)
    for name in set(re.findall(r"_SyncObj(__\w+)", ours)):
        assert re.search(rf"self\.{name}\b|def {name}\b", source), name
    assert hasattr(Transport, "_onMessageReceived")
    assert original._RAFT_STATE.LEADER == syncobj_seams.LEADER
    assert (SERIALIZER_STATE.NOT_SERIALIZING, SERIALIZER_STATE.SERIALIZING) == (0, 1)
    assert (SERIALIZER_STATE.SUCCESS, SERIALIZER_STATE.FAILED) == (2, 3)
    assert FAIL_REASON.SUCCESS == 0


def test_nothing_else_imports_pysyncobj() -> None:
    """One file stands between the core and the rest."""
    package = pathlib.Path(kafkapy.__file__).parent
    imports = re.compile(r"^\s*(import|from) pysyncobj", re.MULTILINE)
    users = [path.name for path in package.rglob("*.py") if imports.search(path.read_text())]
    assert users == ["syncobj_seams.py"]
