"""`from spark_jobs.columns import F`: pyspark.sql.functions, loaded when the first of them is used.

So a job's file reads as any Spark program does, and importing it (for its help, or where pyspark is missing) costs nothing.
"""

from __future__ import annotations

from typing import Any


class _Functions:
    """Looks like the module, and is the module from the first use on."""

    def __getattr__(self, name: str) -> Any:
        from pyspark.sql import functions

        return getattr(functions, name)


F: Any = _Functions()
