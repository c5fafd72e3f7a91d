"""`driver.py BOOTSTRAP FOLDER [DATA_FOLDER]`: one Spark session for many checks; runs in an environment that has pyspark.

Reads the name of a check per line on standard input, runs it, and answers with one line of JSON: {"ok": true} or {"error": "..."}.
What a check, Spark or a job prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from compat_tests.spark import builtin_checks, pipeline_checks
from compat_tests.spark.world import World


def main(bootstrap: str, folder: str, data_folder: str = "") -> None:
    """Run what is asked for until there is nothing more to read."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    world = World(bootstrap, Path(folder), Path(data_folder) if data_folder else None)
    for line in sys.stdin:
        name = f"check_{line.strip()}"
        check = getattr(builtin_checks, name, None) or getattr(pipeline_checks, name)
        try:
            check(world)
            answers.write(json.dumps({"ok": True}) + "\n")
        except Exception as error:  # noqa: BLE001 -- any failure of a check is an answer
            text = f"{type(error).__name__}: {error}"
            answers.write(json.dumps({"error": f"{text[:1500]}\n{traceback.format_exc()[-3000:]}"}) + "\n")
    world.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
