"""kcat, as Debian packages it: an old librdkafka, which is what makes it worth asking."""

import re
import shutil
import subprocess

CLIENT = "kcat"


def version() -> str:
    """What `kcat -V` says of itself and its librdkafka."""
    if shutil.which("kcat") is None:
        return "not installed"
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
    found = re.search(r"Version (\S+) .*(librdkafka \S+)", said)
    return f"{found[1]} ({found[2]})" if found else "unknown"
