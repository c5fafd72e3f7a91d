"""What the clients need on this machine: found, or made once and kept in a cache; what cannot be had is a skip that names it.

The cache is `~/.cache/kafkapy-compat` (or `KAFKAPY_COMPAT_CACHE`): virtual environments, built Go and Rust programs, node modules.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

INSTALL_TIMEOUT_S = 300.0
RUN_TIMEOUT_S = 60.0
GO_CHECK = r'^\t"(\w+)":'  # a row of main.go's table of checks
JS_CHECK = r"^  async (\w+)\("  # a method of the object of checks
_failed: dict[str, str] = {}  # what could not be installed in this session is not tried again for each of its tests


def cache() -> Path:
    """Where everything made here is kept."""
    return Path(os.environ.get("KAFKAPY_COMPAT_CACHE") or Path.home() / ".cache" / "kafkapy-compat")


def program(name: str, hint: str) -> str:
    """The path of an installed program."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed ({hint})")
    return found


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | bytes = b"",
    timeout_s: float = RUN_TIMEOUT_S,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> str:
    """A program's standard output; a failure shows all that it said."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [str(part) for part in command],
        input=data,
        capture_output=True,
        timeout=timeout_s,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if check and done.returncode != 0:
        pytest.fail(
            f"{Path(command[0]).name} ended with {done.returncode}:\n{out[-4000:]}\n{err[-4000:]}", pytrace=False
        )
    return out if check else out + err


def python_with(*requirements: str) -> Path:
    """The interpreter of a virtual environment that has exactly these packages, made when it is not there."""
    folder = cache() / ("venv-" + re.sub(r"[^\w.]+", "-", "_".join(requirements)))
    python = folder / "bin" / "python"
    with _one_at_a_time(folder):
        if not (folder / "complete").exists() and folder.name not in _failed:
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
        _install([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements], folder)
    return python


def go_program(source: Path) -> Path:
    """The program built from a folder with main.go, go.mod and go.sum; built anew when its source changes."""
    go = program("go", "https://go.dev/dl")
    return (
        _built(source, "go", lambda out: _install([go, "build", "-o", out / "program", "."], out, cwd=source))
        / "program"
    )


def go_own_tests(module: str, version: str, package: str) -> Path:
    """The tests that a Go module brings for one of its packages, built as a program."""
    go = program("go", "https://go.dev/dl")
    folder = cache() / ("go-tests-" + re.sub(r"[^\w.]+", "-", f"{module}/{package}@{version}"))
    built = folder / "tests"
    script = (
        f'dir=$("{go}" mod download -json {module}@{version} | sed -n \'s/^.*"Dir": "\\(.*\\)",*$/\\1/p\') && '
        f'cd "$dir/{package}" && "{go}" test -c -o "{built}" .'
    )
    with _one_at_a_time(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _install(["sh", "-c", script], folder)
    return built


def node_modules(source: Path, env: Mapping[str, str] | None = None) -> Path:
    """A folder with the node_modules that a package.json asks for, its scripts beside them; `env` is for what they build."""
    npm = program("npm", "https://nodejs.org")

    def make(out: Path) -> None:
        for file in source.iterdir():
            if file.suffix in (".js", ".json"):
                shutil.copy(file, out)
        _install([npm, "install", "--silent", "--no-audit", "--no-fund"], out, cwd=out, env=env)

    return _built(source, "node", make)


def cargo_program(source: Path, name: str) -> Path:
    """The program of that name, built by cargo from a folder; built anew when its source changes."""
    cargo = program("cargo", "https://rustup.rs")
    target = cache() / f"cargo-target-{source.name}"

    def make(out: Path) -> None:
        _install([cargo, "build", "--quiet", "--jobs", "1", "--target-dir", target], out, cwd=source)
        shutil.copy(target / "debug" / name, out / name)

    return _built(source, "rust", make) / name


def java_program(source: Path, kafka_version: str = "") -> str:
    """The class path of the programs in a folder with a pom.xml, their dependencies included; built anew when the source changes.

    `kafka_version` is what the pom.xml calls ${kafka.version}. A folder without a program of its own asks for jars alone.
    """
    mvn, javac = program("mvn", "https://maven.apache.org"), program("javac", "a JDK, version 17 or later")
    sources = sorted(source.glob("*.java"))

    def make(out: Path) -> None:
        settings = [f"-Dkafka.version={kafka_version}", f"-DoutputDirectory={out}/libs"]
        _install([mvn, "-q", "-B", "-f", source / "pom.xml", "dependency:copy-dependencies", *settings], out)
        if sources:  # what does not compile is a failure, where what cannot be fetched is a skip
            (out / "complete").unlink()
            run([javac, "-cp", f"{out}/libs/*", "-d", out / "classes", *sources], timeout_s=INSTALL_TIMEOUT_S)
            (out / "complete").touch()

    folder = _built(source, f"java{kafka_version}", make)
    return f"{folder}/classes:{folder}/libs/*"


def checks(file: Path, pattern: str = r"^(?:async )?def check_(\w+)") -> list[str]:
    """The names of the checks in a client's own program, so that each is a row of the matrix."""
    return re.findall(pattern, file.read_text(), re.MULTILINE)


def _built(source: Path, kind: str, make: Callable[[Path], None]) -> Path:
    """A folder in the cache that `make` has filled from this source, keyed by the source's content."""
    digest = hashlib.sha256()
    for file in sorted(source.rglob("*")):
        if file.is_file() and file.suffix != ".py" and "__pycache__" not in file.parts:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    folder = cache() / f"{kind}-{source.name}-{digest.hexdigest()[:12]}"
    with _one_at_a_time(folder):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
    return folder


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Two sessions on one machine share the cache, so only one of them may fill a folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(
    command: Sequence[str | Path], folder: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Run what fetches or builds; what cannot be fetched is a missing tool, not a failed broker."""
    if (folder / "complete").exists():
        return
    if folder.name not in _failed:
        _failed[folder.name] = _failure([str(part) for part in command], cwd, env or {})
    if _failed[folder.name]:
        pytest.skip(f"{Path(command[0]).name} could not install it: {_failed[folder.name]}")
    (folder / "complete").touch()


def _failure(command: list[str], cwd: Path | None, env: Mapping[str, str]) -> str:
    """Why a command did not do its work; empty if it did."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, cwd=cwd, env={**os.environ, **env}
        )
    except subprocess.TimeoutExpired:
        return f"not within {INSTALL_TIMEOUT_S:.0f} s"
    said = (done.stderr or done.stdout).strip()
    reasons = [line.strip() for line in said.splitlines() if line.lstrip().startswith(("fatal: ", "ERROR: "))]
    said = (reasons[0] if reasons else said)[-300:]
    return said or f"it ended with {done.returncode}" if done.returncode != 0 else ""
