"""What depends on who sits at the other end: colours, prompts, chatter. Data goes to standard output, all of this to standard error."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

import click


def colours(stream: IO[Any]) -> bool:
    """Whether to colour what goes to this stream: NO_COLOR and FORCE_COLOR decide before the terminal does."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def styled(text: str, stream: IO[Any], **style: Any) -> str:
    """The text in colour where there are colours."""
    return click.style(text, **style) if colours(stream) else text


def note(text: str) -> None:
    """Tell a person something that is no data and no failure."""
    print(text, file=sys.stderr)


def say_error(text: str, hint: str | None = None) -> None:
    """One line that says what is wrong, and perhaps one that says what to do."""
    print(f"{styled('error:', sys.stderr, fg='red', bold=True)} {text}", file=sys.stderr)
    if hint:
        print(f"{styled('hint:', sys.stderr, fg='yellow', bold=True)} {hint}", file=sys.stderr)


def confirm(question: str, yes: bool) -> None:
    """Go on only with consent: --yes, or an answer at the terminal. Where nobody can answer, nothing is destroyed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes: nobody can answer here, since standard input is no terminal.")
    click.confirm(question, abort=True, err=True)
