"""How commands are made: groups that load a command's module only when it runs, options that every command has, examples.

A noun is one module and one line in its group's table:

    GROUP = Group("topic", {"create": Entry("kafkapy.cli.topic.create:create", "Create topics.")}, help="...")

The line repeats the first line of the command's help so that `kafkapy --help` need not import anything to show it; a test
compares the two. Examples are run as tests, so they are more than illustration.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click

from kafkapy.cli.session import Session

WIDTH = 100


class Entry(NamedTuple):
    """Where a command is ("module:attribute"), and the line that its group shows for it."""

    target: str
    help: str

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a global option where all commands find it; the one nearest to the command's end of the line wins."""
    session = ctx.ensure_object(Session)
    if param.name == "properties":
        session.properties.extend(value)
    elif value:
        setattr(session, param.name or "", value)


def _global_options(client: bool) -> list[click.Parameter]:
    """Options that may stand anywhere on the command line."""
    options: list[click.Parameter] = []
    if client:
        options += [
            click.Option(
                ["-b", "--bootstrap"],
                metavar="HOST:PORT[,...]",
                expose_value=False,
                callback=_remember,
                help="Brokers to ask first.  [env: KAFKAPY_BOOTSTRAP; default: localhost:9092]",
            ),
            click.Option(
                ["-X", "properties"],
                metavar="KEY=VALUE",
                multiple=True,
                expose_value=False,
                callback=_remember,
                help="A client property under its Java or librdkafka name, such as client.id or request.timeout.ms.",
            ),
            click.Option(
                ["--client-config"],
                metavar="FILE",
                type=click.Path(exists=True, dir_okay=False),
                expose_value=False,
                callback=_remember,
                help="Client properties from a file, such as Kafka's client.properties.",
            ),
        ]
    debug = click.Option(
        ["--debug"], is_flag=True, expose_value=False, callback=_remember, help="Show a traceback with an error."
    )
    return [*options, debug]


class _Shared(click.Command):
    """What commands and groups have in common: global options in a section of their own, and examples at the end."""

    examples: str
    global_options: list[click.Parameter]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *self.global_options]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [param for param in super().get_params(ctx) if isinstance(param, click.Option)]
        for title, params in (("Options", own), ("Global options", self.global_options)):
            records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n" if line else "\n")


class Command(_Shared):
    """A leaf: something that is done."""

    def __init__(self, *args: Any, examples: str = "", client: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = _dedent(examples)
        self.global_options = _global_options(client)


class Group(_Shared, click.Group):
    """A noun: a table of commands, none of which is imported before it is called."""

    def __init__(self, name: str, table: Mapping[str, Entry], *, examples: str = "", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self.table = dict(table)
        self.examples = _dedent(examples)
        self.global_options = _global_options(client=True)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        return entry.load() if entry else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.table and not args[0].startswith("-"):
            self._refuse(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _refuse(self, ctx: click.Context, name: str) -> None:
        from difflib import get_close_matches

        near = get_close_matches(name, self.table, 1)
        did_you_mean = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(self.table)}."
        raise click.UsageError(f"No command {name!r} in {ctx.command_path!r}.{did_you_mean}", ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _Shared.format_options(self, ctx, formatter)
        rows = [(name, entry.help) for name, entry in self.table.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def topic_argument(name: str, **kwargs: Any) -> Callable[[Any], Any]:
    """An argument that takes topics; the shell completes their names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return ctx.ensure_object(Session).topics_for_completion(incomplete)

    return click.argument(name, shell_complete=complete, **kwargs)


def _dedent(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip("\n")


def command(name: str, *, examples: str, client: bool = True, **kwargs: Any) -> Callable[[Any], Command]:
    """Decorate a function: it becomes the command. `client=False`: it talks to no broker."""
    return click.command(name, cls=Command, examples=examples, client=client, **kwargs)
