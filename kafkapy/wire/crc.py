"""CRC-32C in C, without what its package costs to import.

The `crc32c` package reads its own version through `importlib.metadata` while it is imported: 36 ms, a tenth of the time in which
the broker starts. The function itself sits in the package's extension module, so that file is loaded directly and the package's
`__init__` never runs. Where the file cannot be found this way (a frozen application, a future layout of the package) the plain
import does the same at its price.

    crc32c(data, value=0) -> int      data: any bytes-like object, read where it is; value: the crc of what came before
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        extension = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if extension is not None and isinstance(extension.loader, ExtensionFileLoader):
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            function: Callable[..., int] | None = getattr(module, "crc32c", None)
            if function is not None:
                return function
    from crc32c import crc32c as plain

    return plain


crc32c = _load()
