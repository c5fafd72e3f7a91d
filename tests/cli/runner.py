"""Run the command in this process, with streams of its own, as a shell would see it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from unittest import mock

from kafkapy.cli.main import main


class Result(NamedTuple):
    """What a run left behind."""

    code: int
    out: str
    err: str
    out_bytes: bytes

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        """Standard output as one JSON document per line."""
        return [json.loads(line) for line in self.out.splitlines()]


class _Stream(io.TextIOWrapper):
    """Output that claims to be a terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        self.data = io.BytesIO()
        self._is_terminal = is_terminal
        super().__init__(self.data, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return self._is_terminal


def run(*args: str, stdin: bytes | str = b"", env: Mapping[str, str] | None = None, terminal: bool = False) -> Result:
    """Run `kafkapy ARGS`. With `terminal` standard output and standard error are one; standard input never is."""
    out, err = _Stream(terminal), _Stream(terminal)
    data = stdin.encode() if isinstance(stdin, str) else stdin
    with (
        _input(data) as standard_input,
        mock.patch.dict(os.environ, dict(env or {})),
        mock.patch.multiple(sys, stdin=standard_input, stdout=out, stderr=err),
    ):
        code = main(args)
    written = out.data.getvalue()
    return Result(code, written.decode(errors="replace"), err.data.getvalue().decode(), written)


@contextlib.contextmanager
def _input(data: bytes) -> Iterator[Any]:
    """A file, because the command asks the system whether there is more to read."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with io.TextIOWrapper(io.FileIO(os.dup(file.fileno())), encoding="utf-8") as stream:
            yield _Raw(stream)


class _Raw:
    """Standard input as far as the command looks at it."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self._stream = stream
        self.buffer = stream.buffer

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    def read(self) -> str:
        return self._stream.read()
