"""`kafkapy format`: marks data folders as a node's before it starts, as `kafka-storage format` does."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command


@command(
    "format",
    client=False,
    short_help="Format the data folders of a node.",
    examples="""
        kafkapy format --data-dir ./data
        kafkapy format --config server.properties --data-dir ./disk --cluster-id MkU3OEVBNTcwNTJENDM2Qg
        kafkapy format --config server.properties --ignore-formatted
        """,
)
@click.option("-c", "--config", metavar="FILE", help="Kafka's own configuration keys, as in its server.properties.")
@click.option("-d", "--data-dir", metavar="DIR", help="Where the data is kept; the key log.dirs.")
@click.option(
    "-s", "--set", "settings", metavar="KEY=VALUE", multiple=True, help="A configuration key; stronger than the file."
)
@click.option(
    "-t",
    "--cluster-id",
    metavar="ID",
    help="The same on all nodes.  [default: drawn from the list of controllers; random for a single node]",
)
@click.option(
    "-g", "--ignore-formatted", is_flag=True, help="Leave formatted folders as they are, and format the others."
)
@click.option("--join", is_flag=True, help="This controller is added to others that have a history already.")
@click.option("--rejoin", is_flag=True, help="This controller has lost its disk, and comes back to the others.")
def format_(
    config: str | None,
    data_dir: str | None,
    settings: tuple[str, ...],
    cluster_id: str | None,
    ignore_formatted: bool,
    join: bool,
    rejoin: bool,
) -> None:
    """Format the data folders of a node.

    Prints the cluster id. A node formats new folders at its start, so this is for whoever wants to choose the id, or wants a controller
    among several to vote at once: one that finds its folder new, or is formatted with --join, waits until it was in contact with all
    the others.

    A controller that has lost its disk is refused by the others, since it may have forgotten what it had promised. Run this with
    --rejoin and start it again: it is sent everything first, and counts afterwards. All other controllers must be reachable meanwhile.
    """
    from kafkapy.cli.terminal import note
    from kafkapy.config.loading import load
    from kafkapy.server.formatting import format_folders

    options = {} if data_dir is None else {"log.dirs": data_dir}
    loaded = load(config, settings, options).config
    done = format_folders(loaded, cluster_id, ignore_formatted=ignore_formatted, join=join, rejoin=rejoin)
    for path in done.formatted:
        note(f"formatted {path}")
    for path in done.already:
        note(f"{path} was formatted already")
    print(done.cluster_id)
