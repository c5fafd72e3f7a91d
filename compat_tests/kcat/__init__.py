"""kcat, as Debian packages it: an old librdkafka, which is what makes it worth asking."""

import shutil
import subprocess

CLIENT = "kcat"


def version() -> str:
    """What `kcat -V` says of itself and its librdkafka."""
    if shutil.which("kcat") is None:
        return "not installed"
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
    return " ".join(line.strip() for line in said.splitlines() if line.startswith("Version"))
