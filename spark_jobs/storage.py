"""Small files in any file system that Hadoop knows (a local folder, hdfs://, s3a://), from the driver, through Hadoop's own classes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.session import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoredFile(NamedTuple):
    """A file or folder, its path relative to the root of the storage."""

    path: str
    size: int
    is_folder: bool


class Storage:
    """The files below a URI."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        from py4j.protocol import Py4JJavaError

        self._jvm: Any = spark._jvm
        self.uri = uri.rstrip("/") or "/"
        conf = spark._jsc.hadoopConfiguration()
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(self.uri)
            self._fs = path.getFileSystem(conf)
            self.uri = str(self._fs.makeQualified(path).toString())
            self._fs.setWriteChecksum(False)  # Checksums in files of their own would be left behind by renames.
        except Py4JJavaError as error:
            raise JobError(f"{uri}: {error.java_exception.getMessage()}") from None

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{path}" if path else self.uri)

    def full(self, path: str) -> str:
        """The URI of a path."""
        return f"{self.uri}/{path}"

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def children(self, path: str) -> list[StoredFile]:
        """What is in a folder; nothing if there is none."""
        if not self.exists(path):
            return []
        prefix = f"{path}/" if path else ""
        return [
            StoredFile(prefix + status.getPath().getName(), status.getLen(), status.isDirectory())
            for status in self._fs.listStatus(self._path(path))
        ]

    def files_below(self, path: str) -> list[StoredFile]:
        """All files in a folder and its folders."""
        found = []
        for entry in self.children(path):
            found += self.files_below(entry.path) if entry.is_folder else [entry]
        return found

    def read_lines(self, path: str) -> list[str]:
        """The lines of a small text."""
        stream = self._fs.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")).splitlines()
        finally:
            stream.close()

    def read_json(self, path: str) -> Any:
        """A JSON document; JobError where it is none."""
        try:
            return json.loads("\n".join(self.read_lines(path)))
        except ValueError:
            raise JobError(f"{self.full(path)} is damaged: not JSON") from None

    def write_json(self, path: str, document: Any, overwrite: bool = False) -> None:
        """Write a document in one step: it is there as a whole or not at all. An existing one is an error unless it may be replaced."""
        folder, _, name = path.rpartition("/")
        hidden = f"{folder}/.{name}.new"
        data = json.dumps(document, indent=1, sort_keys=True).encode()
        stream = self._fs.create(self._path(hidden), True)
        try:
            stream.write(data)
            stream.hflush()
        finally:
            stream.close()
        if self.exists(path):
            if not overwrite:
                raise JobError(f"{self.full(path)} exists already: another job is writing to {self.uri}")
            self._replace(hidden, path)
        else:
            self.rename(hidden, path)

    def _replace(self, source: str, target: str) -> None:
        """Rename over an existing file, in one step where the file system can."""
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        gateway = self._jvm._gateway_client
        options = self._array(gateway, rename)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._fs.getUri(), self._fs.getConf())
        context.rename(self._path(source), self._path(target), options)

    def _array(self, gateway: Any, rename: Any) -> Any:
        from pyspark import SparkContext

        active = SparkContext._active_spark_context
        assert active is not None and active._gateway is not None, "a storage is used while its session runs"
        options = active._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        return options

    def rename(self, source: str, target: str) -> None:
        """Move a file; the folder that it goes to is made. JobError when it cannot be moved or the target is there."""
        folder = target.rpartition("/")[0]
        self._fs.mkdirs(self._path(folder))
        if self.exists(target) or not self._fs.rename(self._path(source), self._path(target)):
            raise JobError(f"cannot rename {self.full(source)} to {self.full(target)}")

    def delete(self, path: str) -> None:
        """Remove a file or a folder with all that is in it; nothing happens if there is none."""
        self._fs.delete(self._path(path), True)
