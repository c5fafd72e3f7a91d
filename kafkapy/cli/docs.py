"""The page docs/cli.md, written from the commands themselves: `python -m kafkapy.cli.docs` from the root of the repository.

A test fails when the page is not what this prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kafkapy.cli import consume, offset_spec, percent
from kafkapy.cli.framework import Command, Group
from kafkapy.cli.main import PROGRAM, root

PAGE = Path("docs/cli.md")

_INTRODUCTION = """\
# The command line

<!-- Written by `python -m kafkapy.cli.docs`. Change the help of a command, then run it again. -->

`kafkapy start` runs a broker; every other command speaks to any broker of the Kafka protocol. Where that is says `-b HOST:PORT`,
`-X bootstrap.servers=...`, a properties file given by `--client-config`, or the environment variable `KAFKAPY_BOOTSTRAP`, in this
order; otherwise it is `localhost:9092`. These options may stand anywhere on the line. `--debug` shows a traceback with an error.

**Output.** Standard output carries data, standard error everything else. At a terminal a reader prints a table; into a pipe it prints
the same columns separated by tabs, without headings. `--format json` is one document (one object a line for records), and
`--format help` prints its schema. `NO_COLOR` and `FORCE_COLOR` are obeyed.

**Exit codes.** 0 done, 1 failed, 2 wrong usage, 3 some of it failed, 4 no broker answers, 130 interrupted.

**Completion.** `eval "$(_KAFKAPY_COMPLETE=bash_source kafkapy)"` in bash; `zsh_source` and `fish_source` likewise.
"""


def page() -> str:
    """The whole page. Click's own layout is not used, since it changes from one version of click to the next."""
    parts = [_INTRODUCTION]
    for path, command in commands():
        parts.append(_section(path, command))
    parts.append(f"## Formats of records\n\n```text\n{_dedented(percent.__doc__)}\n```\n")
    names = "\n".join(f"{name:<6}{text}" for name, text in consume.FORMATS.items())
    parts.append(f"`consume --format` knows these by name:\n\n```text\n{names}\n```\n")
    parts.append(f"## Offsets\n\n```text\n{_dedented(offset_spec.__doc__)}\n```\n")
    return "\n".join(parts)


def _section(path: list[str], command: Command | Group) -> str:
    """One command: what it does, how it is called, its options, its examples."""
    words = " ".join(path)
    lines = [f"{'#' * min(len(path) + 1, 4)} {words}", "", _dedented(command.help), ""]
    if isinstance(command, Group):
        lines += [f"- `{words} {name}`: {entry.help}" for name, entry in command.table.items()]
    else:
        arguments = [_metavar(param) for param in command.params if isinstance(param, click.Argument)]
        lines += ["```text", " ".join([*path, "[OPTIONS]", *arguments]), "```", ""]
        options = [param for param in command.params if isinstance(param, click.Option)]
        lines += [_option(option) for option in options]
    lines += ["", "```sh", command.examples, "```", ""]
    return "\n".join(lines)


def _option(option: click.Option) -> str:
    """One line of a list."""
    metavar = "" if option.is_flag else f" {_metavar(option)}"
    default = f" Default: `{option.default}`." if option.show_default else ""
    return f"- `{', '.join(option.opts)}{metavar}`: {option.help}{default}"


def _metavar(param: click.Parameter) -> str:
    """What stands for the value."""
    if param.metavar:
        return param.metavar
    if isinstance(param.type, click.Choice):
        return "|".join(map(str, param.type.choices))
    name = (param.name or "").upper()
    return name if param.required else f"[{name}]"


def commands() -> Iterator[tuple[list[str], Command | Group]]:
    """Every command and group by the words that call it, in the order of the tables."""
    yield from _walk([PROGRAM], root)


def _walk(path: list[str], command: click.Command) -> Iterator[tuple[list[str], Command | Group]]:
    assert isinstance(command, Command | Group)
    yield path, command
    if isinstance(command, Group):
        for name, entry in command.table.items():
            yield from _walk([*path, name], entry.load())


def _dedented(text: str | None) -> str:
    from inspect import cleandoc

    return cleandoc(text or "")


def main() -> int:
    """Write the page."""
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
