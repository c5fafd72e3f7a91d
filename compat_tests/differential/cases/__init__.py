"""All cases by name. A case is a function that asks a Probe; its name is the function's."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from compat_tests.differential.probe import Probe

Case = Callable[[Probe], None]

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a case."""
    assert function.__name__ not in CASES, f"two cases are called {function.__name__}"
    CASES[function.__name__] = function
    return function


def load() -> dict[str, Case]:
    """Import every module of cases and return what they hold."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return CASES
