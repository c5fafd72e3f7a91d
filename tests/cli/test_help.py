"""Help answers at once, teaches with examples, and the page in docs/ is what the commands say."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import click
import pytest

from kafkapy.cli import session
from kafkapy.cli.docs import commands, page
from kafkapy.cli.framework import Command, Group
from kafkapy.cli.main import main, root
from kafkapy.testing.broker import Broker
from tests.cli.runner import run

ROOT = Path(__file__).resolve().parents[2]
ALL = list(commands())
LEAVES = [(path, command) for path, command in ALL if isinstance(command, Command)]
GROUPS = [(path, command) for path, command in ALL if isinstance(command, Group)]

# What a look at the help must not wait for.
HEAVY = (
    "trio",
    "construct",
    "rich",
    "pysyncobj",
    "asyncio",
    "kafkapy.server",
    "kafkapy.wire",
    "kafkapy.client",
    "kafkapy.config",
)


def name(value: object) -> str:
    """The words of a command, for the names of tests."""
    return "-".join(value[1:]) if isinstance(value, list) else ""


def test_help_imports_nothing_heavy() -> None:
    """The time of `kafkapy --help` is the time of its imports."""
    script = (
        "import sys, io; sys.stdout = io.StringIO(); from kafkapy.cli.main import main; code = main(['--help']);"
        "sys.stdout = sys.__stdout__; print(code, *sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    code, *modules = done.stdout.split()
    assert code == "0"
    assert [module for module in modules if module.startswith(HEAVY)] == []


def test_help_lists_every_noun_and_its_examples() -> None:
    """The first thing that a newcomer sees."""
    result = run("--help")
    assert result.code == 0
    for entry in root.table.values():
        assert entry.help in result.out
    assert "kafkapy consume orders --exit" in result.out


@pytest.mark.parametrize(("path", "group"), GROUPS, ids=name)
def test_the_line_of_a_group_is_the_first_line_of_the_command(path: list[str], group: Group) -> None:
    """The table repeats it, so that showing it imports nothing."""
    for word, entry in group.table.items():
        command = entry.load()
        assert command.name == word
        assert command.help and command.help.startswith(entry.help), word
        assert isinstance(command, Group) or command.short_help == entry.help, word


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=name)
def test_every_command_teaches_with_an_example(path: list[str], command: Command) -> None:
    """Help of every leaf works, explains each option, and closes with examples that call it."""
    result = run(*path[1:], "--help")
    assert result.code == 0
    assert "Examples:\n" in result.out
    assert " ".join(path) in command.examples
    for param in command.params:
        assert not isinstance(param, click.Option) or param.help, param.name


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=name)
def test_readers_print_the_schema_of_their_json(path: list[str], command: Command) -> None:
    """`--format help` needs neither arguments nor a broker."""
    choices = [param for param in command.params if param.name in ("out", "printer")]
    if choices:
        result = run(*path[1:], "--format", "help")
        assert result.code == 0
        assert '"$schema"' in result.out


def test_offsets_explain_themselves() -> None:
    """The grammar is a call away."""
    assert "@TIME" in run("consume", "-o", "help").out


def test_the_page_is_what_the_commands_say() -> None:
    """`python -m kafkapy.cli.docs` writes it."""
    assert (ROOT / "docs/cli.md").read_text() == page()


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("topc",), "Did you mean 'topic'?"),
        (("topic", "creat"), "Did you mean 'create'?"),
        (("topic", "xyz"), "There are: create, list"),
        (("topic", "list", "--nope"), "No such option"),
        (("topic", "create"), "Missing argument"),
    ],
)
def test_wrong_usage_is_told_with_what_is_right(args: tuple[str, ...], hint: str) -> None:
    """Exit code 2, nothing on standard output."""
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    assert hint in result.err


def test_the_version_is_told() -> None:
    """As the package has it."""
    import kafkapy

    assert run("--version").out == f"kafkapy {kafkapy.__version__}\n"


def test_a_bare_call_shows_the_help() -> None:
    """It is no error to ask what there is."""
    assert "Commands:" in run().out + run().err


def completed(words: str, *, env: dict[str, str] | None = None) -> list[str]:
    """What the shell would offer for the last word."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    variables = {
        "_KAFKAPY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        **(env or {}),
    }
    with mock.patch.dict(os.environ, variables), mock.patch("sys.stdout", out), pytest.raises(SystemExit):
        main([])
    out.seek(0)
    return [line.partition(",")[2] for line in out.read().splitlines() if line]


def test_the_shell_completes_commands_options_and_topics(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics by a look at the cluster; nothing, and no error, where there is none."""
    monkeypatch.setattr(session, "COMPLETION_TIMEOUT_S", 10.0)
    for name in ("orders", "order-lines", "users"):
        broker.create_topic(name)
    env = {"KAFKAPY_BOOTSTRAP": broker.bootstrap}
    assert completed("kafkapy top") == ["topic"]
    assert completed("kafkapy topic de") == ["describe", "delete"]
    assert "--partitions" in completed("kafkapy topic describe --part", env=env)
    assert completed("kafkapy topic describe ord", env=env) == ["order-lines", "orders"]
    assert completed(f"kafkapy consume -b {broker.bootstrap} us") == ["users"]
    assert completed("kafkapy consume -b 127.0.0.1:1 us") == []
