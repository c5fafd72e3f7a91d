"""An archive on disk: its layout, its state, and how to read it so that every record is there exactly once.

    URI/
      topic=orders/date=2026-11-18/batch-000000000007-00000.parquet    what the seventh commit added
      topic=orders/date=2026-11-18/merge-000000000009-00000.parquet    what the ninth made of many small files
      _kafkapy/state/000000000009.json                                 the whole archive as of the ninth commit
      _kafkapy/staging/                                                what is being written; nobody reads it
      _kafkapy/owner.json                                              which run may commit: the one that began last

    state: {"version": 1, "number": 9, "cluster": "6VsIpYYzSaeljhWdKO2Big", "committed_only": true,
            "topics": {"orders": {"id": "-7AjKsQWQNmwBBljtxBcGg", "first": {"0": 0}, "until": {"0": 1042}, "gaps": []}},
            "files": [["topic=orders/date=2026-11-18/merge-000000000009-00000.parquet", 524288]]}

A commit is the appearance of the next state file, in one step: data files and the offsets that they reach become valid together. A
data file that the newest state does not name is not part of the archive: it is what a killed job has left, and the next job removes it.
Who reads through `read_archive` sees each record once at any moment. Other programs may read the folders as plain partitioned Parquet
(names that begin with _ are skipped by convention); they see each record once whenever no job is writing and none was killed since the
last one that has ended.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.session import JobError
from spark_jobs.storage import Storage, StoredFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
FOLDERS = ("topic", "date")
STAGING = "_kafkapy/staging"
_STATE = "_kafkapy/state"
_OWNER = "_kafkapy/owner.json"
_OWN_FILE = re.compile(r"topic=[^/]+/date=[^/]+/\.?(?:batch|merge)-\d{12}-\d{5}\.parquet(?:\.crc)?")
_VERSION = 1
_STATES_KEPT = 10


@dataclass
class TopicState:
    """How far a topic is archived: from the offsets `first` to before `until`; `gaps` were deleted before they could be."""

    id: str
    first: dict[int, int] = field(default_factory=dict)
    until: dict[int, int] = field(default_factory=dict)
    gaps: list[list[int]] = field(
        default_factory=list
    )  # [partition, first offset that is missing, offset after the gap]


@dataclass
class State:
    """The whole archive as of one commit."""

    number: int
    cluster: str
    committed_only: bool
    topics: dict[str, TopicState] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)  # path -> size in bytes

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        topics = {
            name: {"id": topic.id, "first": topic.first, "until": topic.until, "gaps": topic.gaps}
            for name, topic in self.topics.items()
        }
        files = sorted([path, size] for path, size in self.files.items())
        return {
            "version": _VERSION,
            "number": self.number,
            "cluster": self.cluster,
            "committed_only": self.committed_only,
            "topics": topics,
            "files": files,
        }

    @classmethod
    def from_json(cls, document: Any, where: str) -> State:
        """The reverse; JobError for what is no state."""
        try:
            if document["version"] != _VERSION:
                raise JobError(f"{where}: version {document['version']}, this program knows {_VERSION}")
            topics = {
                name: TopicState(
                    topic["id"],
                    {int(partition): offset for partition, offset in topic["first"].items()},
                    {int(partition): offset for partition, offset in topic["until"].items()},
                    topic["gaps"],
                )
                for name, topic in document["topics"].items()
            }
            files = dict(document["files"])
            return cls(document["number"], document["cluster"], document["committed_only"], topics, files)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JobError(f"{where} is damaged: {error!r}") from None

    def files_of(self, topic: str) -> list[str]:
        """The paths of a topic's files."""
        return sorted(path for path in self.files if path.startswith(f"topic={topic}/"))


# State.


def load(storage: Storage) -> State | None:
    """The newest state; None where there is no archive yet."""
    numbers = [int(name) for name in _state_names(storage)]
    if not numbers:
        return None
    path = _state_path(max(numbers))
    return State.from_json(storage.read_json(path), storage.full(path))


def load_existing(storage: Storage) -> State:
    """The newest state of an archive that must be there."""
    state = load(storage)
    if state is None:
        raise JobError(f"{storage.uri} is no archive: it has no {_STATE} folder")
    return state


def take_over(storage: Storage) -> str:
    """Make this run the one that may write; a run that is still at it ends with an error at its next commit."""
    owner = uuid.uuid4().hex
    storage.write_json(_OWNER, {"run": owner}, overwrite=True)
    return owner


def commit(storage: Storage, state: State, owner: str) -> None:
    """Make the state the newest one. JobError when another job has taken over meanwhile."""
    if storage.read_json(_OWNER) != {"run": owner}:
        raise JobError(
            f"another job has begun to write to {storage.uri}; this one stops, what it has committed is kept"
        )
    storage.write_json(_state_path(state.number), state.to_json())
    for name in _state_names(storage)[:-_STATES_KEPT]:
        storage.delete(f"{_STATE}/{name}.json")


def _state_names(storage: Storage) -> list[str]:
    names = (file.path.rpartition("/")[2] for file in storage.children(_STATE))
    return sorted(name.removesuffix(".json") for name in names if re.fullmatch(r"\d{12}\.json", name))


def _state_path(number: int) -> str:
    return f"{_STATE}/{number:012d}.json"


def check_same(state: State, cluster: str, topics: Iterable[Any], uri: str) -> None:
    """An archive goes on with the cluster and the very topics it began with."""
    if state.cluster != cluster:
        raise JobError(f"{uri} is the archive of cluster {state.cluster}, this one is {cluster}; choose another folder")
    for topic in topics:
        known = state.topics.get(topic.name)
        if known is not None and known.id != topic.id:
            raise JobError(
                f"topic {topic.name} was deleted and created anew since it was archived (id {known.id} then, {topic.id} now); "
                "choose another folder"
            )


# Files.


def clean(storage: Storage) -> list[str]:
    """Remove what a killed job has left: the staging folder, and files of our own naming that no commit names."""
    storage.delete(STAGING)
    there = [file.path for file in _data_files(storage) if _OWN_FILE.fullmatch(file.path)]
    state = load(storage)
    left = [path for path in there if state is None or path not in state.files]
    for path in left:
        storage.delete(path)
    return left


def _data_files(storage: Storage) -> list[StoredFile]:
    return [
        file
        for folder in storage.children("")
        if folder.path.startswith("topic=")
        for file in storage.files_below(folder.path)
    ]


def take_in(storage: Storage, staged: str, kind: str, number: int) -> dict[str, int]:
    """Move finished files from the staging folder to where they are read; returns path -> size. They count from the commit on."""
    moved = {}
    for index, file in enumerate(sorted(storage.files_below(staged))):
        folder, _, name = file.path.removeprefix(f"{staged}/").rpartition("/")
        if name.endswith(".parquet") and not name.startswith((".", "_")):
            target = f"{folder}/{kind}-{number:012d}-{index:05d}.parquet"
            storage.rename(file.path, target)
            moved[target] = file.size
    storage.delete(staged)
    return moved


def check_whole(storage: Storage, state: State, topic: str) -> None:
    """Every file of the topic is there and has its size; JobError names the first that does not."""
    there = {file.path: file.size for file in storage.files_below(f"topic={topic}")}
    for path in state.files_of(topic):
        if path not in there:
            raise JobError(f"{storage.full(path)} is missing from the archive")
        if there[path] != state.files[path]:
            raise JobError(
                f"{storage.full(path)} has {there[path]:,} bytes instead of {state.files[path]:,}: half written or changed"
            )


def read_archive(spark: SparkSession, storage: Storage, state: State, topic: str) -> DataFrame:
    """The topic's records, each exactly once, with the columns of the kafka source and `date`."""
    if topic not in state.topics:
        raise JobError(f"no topic {topic} in {storage.uri}; there are: {', '.join(sorted(state.topics)) or 'none'}")
    check_whole(storage, state, topic)
    paths = [storage.full(path) for path in state.files_of(topic)]
    return read_files(spark, storage, paths)


def read_files(spark: SparkSession, storage: Storage, paths: list[str]) -> DataFrame:
    """Some of the archive's files; JobError where one has other columns than the archive's."""
    from pyspark.sql.types import StructType

    expected = StructType.fromDDL(f"{COLUMNS}, topic string, date date")
    if not paths:
        return spark.createDataFrame([], expected)
    found = spark.read.option("basePath", storage.uri).option("mergeSchema", "true").parquet(*paths).schema
    types = {column.name: column.dataType.simpleString() for column in found if column.name not in FOLDERS}
    wanted = {column.name: column.dataType.simpleString() for column in expected if column.name not in FOLDERS}
    if types != wanted:
        differing = sorted(set(types.items()) ^ set(wanted.items()))
        raise JobError(f"{storage.uri}: files with other columns than an archive's (schema drift): {differing}")
    return spark.read.schema(expected).option("basePath", storage.uri).parquet(*paths)
