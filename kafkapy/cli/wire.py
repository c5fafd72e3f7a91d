"""`kafkapy wire`: for people who debug clients."""

from __future__ import annotations

import json
import sys

import click

from kafkapy.cli.framework import Entry, Group, command
from kafkapy.errors import ProtocolError

wire = Group(
    "wire",
    {
        "check": Entry("kafkapy.cli.wire:check", "Check the codecs against files of vectors."),
        "decode": Entry("kafkapy.cli.wire:decode", "Explain the bytes of a message."),
    },
    help="Check and decode protocol messages.",
    examples="""
        kafkapy wire decode --api ApiVersions --version 0 --kind request ''
        kafkapy wire check vectors.jsonl
        """,
)


@command(
    "check",
    client=False,
    short_help="Check the codecs against files of vectors.",
    examples="""
        kafkapy wire check vectors.jsonl
        """,
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.pass_context
def check(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Check the codecs against files of vectors.

    Each line of a .jsonl or .jsonl.gz file holds a message with its bytes and its values; both ways are checked. The last line
    printed is `N passed, M failed`; the exit code is 1 if any failed.
    """
    from kafkapy.wire.check import check_files

    ctx.exit(check_files(files, click.echo))


@command(
    "decode",
    client=False,
    short_help="Explain the bytes of a message.",
    examples="""
        kafkapy wire decode --api Heartbeat --version 0 --kind response 001b
        echo 00 1b | kafkapy wire decode --api Heartbeat --version 0 --kind response -
        kafkapy wire decode --api Heartbeat --version 0 --kind response --format json 001b
        """,
)
@click.option("--api", required=True, metavar="NAME", help="The API's name or key: Fetch, or 1.")
@click.option("--version", required=True, type=click.IntRange(0), metavar="N", help="The version of the API.")
@click.option("--kind", required=True, type=click.Choice(["request", "response"]), help="Which way the message went.")
@click.option(
    "--header", is_flag=True, help="The bytes begin with the message's header, as they do after a frame's length."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print; json has the values alone.",
)
@click.argument("hex_text", metavar="HEX")
def decode(api: str, version: int, kind: str, header: bool, format_name: str, hex_text: str) -> None:
    """Explain the bytes of a message.

    HEX may hold blanks; `-` reads it from standard input. Each line tells where a field stands, its bytes, its name and value.
    """
    from kafkapy.wire.check import decode_text

    text = sys.stdin.read() if hex_text == "-" else hex_text
    try:
        if format_name == "text":
            click.echo(decode_text(api, version, kind, text, header))
        else:
            click.echo(json.dumps(_values(api, version, kind, text, header), indent=2, ensure_ascii=False))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _values(api: str, version: int, kind: str, text: str, header: bool) -> dict[str, object]:
    """The message as plain values."""
    from kafkapy.wire.apis import api_by_name
    from kafkapy.wire.header import RequestHeader, ResponseHeader

    try:
        found = api_by_name(api)
    except KeyError:
        raise ValueError(f"there is no API {api}") from None
    is_request = kind == "request"
    cls = found.request if is_request else found.response
    if version not in found.versions:
        raise ValueError(f"{found.name} has the versions {found.versions!r}")
    raw, start = bytes.fromhex(text), 0
    if header and is_request:
        _, start = RequestHeader.decoder(found.request_header_version(version))(raw, 0, len(raw))
    elif header:
        _, start = ResponseHeader.decoder(found.response_header_version(version))(raw, 0, len(raw))
    message, end = cls.decoder(version)(raw, start, len(raw))
    if end != len(raw):
        raise ProtocolError(f"{len(raw) - end} bytes follow that are no part of the message")
    values: dict[str, object] = message.to_json(version)
    return values
