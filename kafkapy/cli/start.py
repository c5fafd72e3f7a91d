"""`kafkapy start`: options into a configuration, logs to standard error, and the broker runs until it is stopped."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command

LEVELS = ("debug", "info", "warning", "error")


def _listener(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """HOST:PORT as Kafka writes a listener. Port 0 lets the system choose."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise click.BadParameter(f"{value!r}: write HOST:PORT, with brackets around an IPv6 address")
    return f"PLAINTEXT://{value}"


@command(
    "start",
    client=False,
    short_help="Run a broker.",
    examples="""
        kafkapy start
        kafkapy start --data-dir ./data --listen localhost:9095
        kafkapy start --config server.properties --set log.retention.hours=24
        kafkapy start --log-format json --log-level debug
        """,
)
@click.option(
    "-d", "--data-dir", metavar="DIR", help="Where the data is kept; the key log.dirs.  [default: ./kafkapy-data]"
)
@click.option(
    "-l",
    "--listen",
    metavar="HOST:PORT",
    callback=_listener,
    help="Where to listen; the key listeners.  [default: localhost:9092]",
)
@click.option("-c", "--config", metavar="FILE", help="Kafka's own configuration keys, as in its server.properties.")
@click.option(
    "-s", "--set", "settings", metavar="KEY=VALUE", multiple=True, help="A configuration key; stronger than the file."
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How log lines look."
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What is logged.")
def start(
    data_dir: str | None,
    listen: str | None,
    config: str | None,
    settings: tuple[str, ...],
    log_format: str,
    log_level: str,
) -> None:
    """Run a broker.

    Without options it is a cluster of one on localhost:9092 with its data in ./kafkapy-data. The configuration keys are Apache
    Kafka's; a wrong value is an error, an unknown key a warning. Ctrl-C or SIGTERM stops it cleanly, a second one at once.
    """
    from kafkapy.config.loading import load

    options = {"log.dirs": data_dir, "listeners": listen}
    loaded = load(config, settings, {key: value for key, value in options.items() if value is not None})

    import logging

    from kafkapy.server.broker import run
    from kafkapy.server.log_output import set_up

    set_up(log_format, log_level)
    for warning in loaded.warnings:
        logging.getLogger("kafkapy.config").warning(warning)
    run(loaded.config)
