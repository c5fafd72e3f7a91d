"""Exit codes, and how a failure is told: the error's name, its cause, and what to do next; never a traceback unless asked."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from kafkapy.cli.terminal import say_error
from kafkapy.errors import ErrorCode, KafkaError, ProtocolError, StartError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = 0
FAILED = 1
USAGE = 2
PARTIAL = 3
UNREACHABLE = 4
INTERRUPTED = 130
CLOSED_PIPE = 141  # what the shell reports for a program that SIGPIPE has ended

_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`kafkapy topic list` shows what there is, `kafkapy topic create` makes more",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`kafkapy topic create --if-not-exists` leaves an existing topic as it is",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "try again; `kafkapy cluster health` shows whether leaders are missing",
    ErrorCode.LEADER_NOT_AVAILABLE: "try again; `kafkapy cluster health` shows whether leaders are missing",
    ErrorCode.NOT_ENOUGH_REPLICAS: "`kafkapy cluster health` shows which replicas are behind",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "`kafkapy cluster health` shows which replicas are behind",
    ErrorCode.NOT_CONTROLLER: "try again; `kafkapy cluster info` shows the controller",
    ErrorCode.BROKER_NOT_AVAILABLE: "`kafkapy cluster health` shows which brokers are there",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`kafkapy cluster info` shows how many brokers there are",
    ErrorCode.INVALID_CONFIG: "`kafkapy topic config get TOPIC --all` shows all keys with their values",
    ErrorCode.INVALID_PARTITIONS: "`kafkapy topic describe TOPIC` shows how many partitions there are",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`kafkapy topic describe TOPIC` shows where each partition starts and ends",
    ErrorCode.MESSAGE_TOO_LARGE: "`kafkapy topic config set TOPIC max.message.bytes=N` lets the topic take larger ones",
    ErrorCode.GROUP_ID_NOT_FOUND: "`kafkapy group list` shows what there is",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first; `kafkapy group describe GROUP` shows them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that read it; `kafkapy group describe GROUP` shows them",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for the rights, or connect as somebody who has them",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for the rights, or connect as somebody who has them",
    ErrorCode.UNSUPPORTED_VERSION: "the broker is too old or too new for this command",
    ErrorCode.REQUEST_TIMED_OUT: "try again, or allow more time with -X request.timeout.ms=MS",
}


class Failure(Exception):
    """A command that ends with these errors, already in words."""

    def __init__(self, message: str, exit_code: int = FAILED, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.hint = hint


def hint_for(error: KafkaError) -> str | None:
    """What to do next; nothing where the message says it all."""
    return _HINTS.get(error.code)


def finish(errors: Iterable[KafkaError | None]) -> None:
    """End a command that did several things: tell every error; exit code 3 where some have worked and some have not."""
    outcomes = list(errors)
    failed = [error for error in outcomes if error is not None]
    if not failed:
        return
    for error in failed[:-1]:
        say_error(str(error))
    last = failed[-1]
    raise Failure(str(last), FAILED if len(failed) == len(outcomes) else PARTIAL, hint_for(last))


def report(error: BaseException) -> int:
    """Tell the failure on standard error; returns the exit code."""
    from kafkapy.client.connection import Unreachable

    if isinstance(error, Failure):
        say_error(error.message, error.hint)
        return error.exit_code
    if isinstance(error, Unreachable):
        say_error(
            f"no broker at {error.address} ({error.reason}); start one with `kafkapy start`, or name another with -b HOST:PORT"
        )
        return UNREACHABLE
    if isinstance(error, KafkaError):
        say_error(str(error), hint_for(error))
    elif isinstance(error, StartError | StorageError | ProtocolError):
        say_error(str(error))
    elif isinstance(error, OSError):
        say_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    else:
        say_error(f"{type(error).__name__}: {error}", "this is a mistake in kafkapy; --debug shows where")
    return FAILED


def close_quietly() -> int:
    """The reader of our output has gone. Python flushes standard output once more at exit, so give it another place to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE


def usage(error: click.ClickException) -> int:
    """Tell what is wrong with the command line, in click's words."""
    error.show()
    return error.exit_code
