"""Running Kafka's classes."""

from pathlib import Path

from cordwood.testing.servers.java import java_line
from cordwood.testing.servers.maven import Say, jar_folder, to_stderr

USER = "Kafka"
_POM = Path(__file__).with_name("broker.pom.xml")


def fetch_jars(say: Say = to_stderr) -> Path:
    """The folder with the jars of Kafka; fetches missing jars."""
    return jar_folder(_POM, "kafka", say)


def java() -> list[str]:
    """The command line up to the options and the class to run."""
    return [*java_line(fetch_jars(), USER), "-Dlog4j2.level=WARN"]
