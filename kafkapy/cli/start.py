"""`kafkapy start`: options into a configuration, logs to standard error, and the broker runs until it is stopped."""

from __future__ import annotations

import os

import click

from kafkapy.cli.framework import command
from kafkapy.errors import StartError

DATA_DIR_DEFAULT = "kafkapy-data"

# More processes than that on one machine are a mistake at the keyboard.
BROKERS_MAX = 64

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
    short_help="Run a broker, or a cluster of them.",
    examples="""
        kafkapy start
        kafkapy start --data-dir ./data --listen localhost:9095
        kafkapy start --brokers 3
        kafkapy start --brokers 3 --racks a,b,c --set num.partitions=6
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
    "-n",
    "--brokers",
    metavar="N",
    type=click.IntRange(1, BROKERS_MAX),
    default=1,
    show_default=True,
    help="Run so many brokers on this machine, as one cluster: ports from --listen upward, a folder for each in --data-dir.",
)
@click.option(
    "--racks", metavar="NAME,...", help="The racks that the brokers of a cluster stand in, one after another."
)
@click.option("--restart", is_flag=True, help="Start a broker of a cluster again when it has died.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How log lines look."
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What is logged.")
def start(
    data_dir: str | None,
    listen: str | None,
    config: str | None,
    settings: tuple[str, ...],
    brokers: int,
    racks: str | None,
    restart: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Run a broker, or a cluster of them.

    Without options it is a cluster of one on localhost:9092 with its data in ./kafkapy-data. The configuration keys are Apache
    Kafka's; a wrong value is an error, an unknown key a warning. Ctrl-C or SIGTERM stops it cleanly, a second one at once.

    With --brokers N there is one process per broker. Each has its server.properties in the data folder, written anew by each start;
    --set and --config are for all of them. A broker that dies is reported, and the others go on without it.
    """
    if brokers > 1:
        from kafkapy.cli.start_cluster import plan_of, run_cluster

        run_cluster(
            plan_of(brokers, data_dir, listen, config, settings, racks, log_format, log_level, restart),
        )
        return
    if racks is not None or restart:
        raise click.UsageError("--racks and --restart are for a cluster: say --brokers N")
    _run_broker(data_dir, listen, config, settings, log_format, log_level)


def _run_broker(
    data_dir: str | None,
    listen: str | None,
    config: str | None,
    settings: tuple[str, ...],
    log_format: str,
    log_level: str,
) -> None:
    """One broker, in this process."""
    if config is None and os.path.exists(os.path.join(data_dir or DATA_DIR_DEFAULT, "broker1.properties")):
        folder = data_dir or DATA_DIR_DEFAULT
        raise StartError(f"{folder} holds a cluster; start it with --brokers N, or name another folder with --data-dir")
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
