"""The project's own rules, held by a test: who may import whom, what pure code may touch, how long things may get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "kafkapy"
BESIDE = ("bench", "chaos", "compat_tests", "sim", "spark_jobs")

# Which parts of the package each part may import; "base" are the modules directly in kafkapy/.
ALLOWED = {
    "base": {"base"},
    "config": {"base", "config"},
    "wire": {"base", "wire"},
    "log": {"base", "config", "wire", "log"},
    "groups": {"base", "config", "wire", "groups"},
    "transactions": {"base", "config", "wire", "transactions"},
    "raft": {"base", "config", "wire", "log", "raft"},
    "replication": {"base", "config", "wire", "log", "replication"},
    "handlers": {"base", "config", "wire", "log", "groups", "transactions", "raft", "replication", "handlers"},
    "server": {
        *("base", "config", "wire", "log", "groups", "transactions", "raft", "replication", "handlers"),
        "server",
    },
    "client": {"base", "wire", "client"},
    "cli": {"base", "config", "wire", "log", "client", "cli", "server"},
    "testing": {"base", "config", "wire", "client", "server", "testing"},
}

# Layers that decide but never wait, and what they must not touch.
PURE = {"base", "config", "wire", "log", "groups", "transactions", "raft", "replication", "handlers"}
IMPURE_MODULES = {"trio", "socket", "threading", "time", "random", "asyncio", "subprocess", "multiprocessing", "select"}
IMPURE_ALLOWED = {
    # pysyncobj brings its own thread and sockets; this file fences them.
    "raft/syncobj_quorum.py": {"threading", "time", "random", "socket"},
}

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
LINE_LENGTH_MAX = 160  # tables of declarations; the formatter keeps code to 120


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def programs() -> list[Path]:
    """Every module of the package and of the programs beside it."""
    return modules() + [path for folder in BESIDE for path in sorted((ROOT / folder).rglob("*.py"))]


def part_of(path: Path) -> str:
    """The layer that a module belongs to."""
    relative = path.relative_to(PACKAGE)
    if relative.name == "__main__.py":
        return "cli"
    return relative.parts[0] if len(relative.parts) > 1 else "base"


def imports_of(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each imported module's name, and whether it is imported for type checkers only."""
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                typing_only.update(ast.walk(child))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node in typing_only
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node in typing_only


def relative_name(path: Path) -> str:
    """The name a failure shows."""
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))


@pytest.mark.parametrize("path", modules(), ids=relative_name)
def test_layers_import_only_what_lies_below_them(path: Path) -> None:
    """A module imports only from the layers that DESIGN.md puts below its own."""
    part = part_of(path)
    for name, typing_only in imports_of(ast.parse(path.read_text())):
        if not name.startswith("kafkapy.") or typing_only:
            continue
        pieces = name.split(".")
        imported = pieces[1] if (PACKAGE / pieces[1]).is_dir() else "base"
        assert imported in ALLOWED[part], f"{part} must not import {name}"


@pytest.mark.parametrize("path", [p for p in modules() if part_of(p) in PURE], ids=relative_name)
def test_pure_layers_touch_no_clock_socket_or_thread(path: Path) -> None:
    """Pure layers neither await nor import what waits, sleeps or rolls dice."""
    tree = ast.parse(path.read_text())
    allowed = IMPURE_ALLOWED.get(relative_name(path), set())
    for name, typing_only in imports_of(tree):
        root = name.split(".")[0]
        assert typing_only or root not in IMPURE_MODULES or root in allowed, f"{name} in a pure layer"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.AsyncFunctionDef), f"async def {getattr(node, 'name', '')} in a pure layer"


@pytest.mark.parametrize("path", programs(), ids=relative_name)
def test_modules_stay_small_and_explained(path: Path) -> None:
    """Every module has a docstring, and its functions, lines and itself stay within what one can take in."""
    text = path.read_text()
    tree = ast.parse(text)
    lines = text.splitlines()
    assert not lines or ast.get_docstring(tree), "no docstring"
    assert len(lines) <= FILE_LINES_MAX, f"{len(lines)} lines"
    for number, line in enumerate(lines, 1):
        assert len(line) <= LINE_LENGTH_MAX, f"line {number} has {len(line)} characters"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", programs(), ids=relative_name)
def test_no_exception_disappears(path: Path) -> None:
    """No bare except, and no handler of a broad exception that says nothing."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ExceptHandler):
            continue
        assert node.type is not None, f"bare except at line {node.lineno}"
        broad = ast.unparse(node.type) in ("Exception", "BaseException")
        silent = all(isinstance(child, ast.Pass | ast.Continue) for child in node.body)
        assert not (broad and silent), f"silent except at line {node.lineno}"


@pytest.mark.parametrize("path", programs(), ids=relative_name)
def test_nothing_is_left_unfinished(path: Path) -> None:
    """No marker of unfinished work stays."""
    found = re.search(r"\b(TODO|FIXME|XXX|NotImplementedError)\b", path.read_text())
    assert not found, found.group() if found else ""


def test_every_served_api_has_its_handler_and_the_reverse() -> None:
    """What ApiVersions reports is exactly what has a module in handlers/."""
    from kafkapy.handlers import CONTROLLER_SERVED, SERVED
    from kafkapy.wire.apis import API_BY_KEY

    named = {API_BY_KEY[key].module_name for key in SERVED | CONTROLLER_SERVED}
    names = {api.module_name for api in API_BY_KEY.values()}
    present = {path.stem for path in (PACKAGE / "handlers").glob("*.py")} & names
    assert named == present
