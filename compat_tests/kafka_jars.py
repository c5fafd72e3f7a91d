"""Apache Kafka's jars, fetched by Maven into the place where `kafka_broker.libs()` looks for them."""

from __future__ import annotations

import shutil
import subprocess

from compat_tests import kafka_broker

FETCH_TIMEOUT_S = 600.0
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kafkapy.compat</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
</dependencies></project>
"""


def fetch() -> None:
    """Fetch them if they are not there and Maven is; `kafka_broker.missing()` says afterwards what is still lacking."""
    libs = kafka_broker.libs()
    if list(libs.glob("kafka_*.jar")) or shutil.which("mvn") is None:
        return
    libs.parent.mkdir(parents=True, exist_ok=True)
    (libs.parent / "pom.xml").write_text(_POM.format(version=kafka_broker.VERSION))
    goal = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
    subprocess.run(goal, cwd=libs.parent, stdout=subprocess.DEVNULL, timeout=FETCH_TIMEOUT_S, check=True)
