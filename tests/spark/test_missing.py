import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.java import java_problem
from tests.support.docs.pages import page

SESSION = "from cordwood import pipeline; pipeline.session()"
ADVICE = "install Java 17 or newer (Debian: openjdk-17-jre-headless), or set JAVA_HOME to one"


def last_line(code: str, **environment: str) -> str:
    """What a Python program that fails says last; it never gets as far as to start Java."""
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 1
    assert "gateway" not in ran.stderr.lower()
    return ran.stderr.splitlines()[-1]


def fake_java(home: Path, says: str) -> str:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return str(home)


@pytest.mark.processes
def test_without_java(tmp_path: Path) -> None:
    line = last_line(SESSION, JAVA_HOME="", PATH=str(tmp_path))
    assert line == f"cordwood.errors.Unavailable: Spark needs Java, and there is none: {ADVICE}"


@pytest.mark.processes
def test_with_a_java_home_that_is_none(tmp_path: Path) -> None:
    line = last_line(SESSION, JAVA_HOME=str(tmp_path))
    assert f"{tmp_path}/bin/java cannot be run (No such file or directory): {ADVICE}" in line


@pytest.mark.processes
@pytest.mark.parametrize(("version", "number"), [("1.8.0_412", 8), ("11.0.2", 11)])
def test_with_an_old_java(tmp_path: Path, version: str, number: int) -> None:
    line = last_line(SESSION, JAVA_HOME=fake_java(tmp_path, f'openjdk version "{version}" 2019-01-15'))
    assert f"Spark needs Java 17 or newer, and {tmp_path}/bin/java is Java {number}: {ADVICE}" in line


def test_versions_that_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("17", "21.0.3", "25-ea"):
        monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path / version, f'openjdk version "{version}"'))
        assert java_problem("Spark") is None
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path / "mute", "hello"))
    assert "does not tell its version" in (java_problem("Spark") or "")


@pytest.mark.processes
def test_make_says_the_same(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "src/cordwood/java.py"
    environment = {**os.environ, "JAVA_HOME": "", "PATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-I", str(script), "Spark"], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (1, f"Spark needs Java, and there is none: {ADVICE}\n")


@pytest.mark.processes
@pytest.mark.parametrize(
    "call", ["pipeline.session()", "pipeline.read(None, 'file:.', 'a')", "pipeline.register(None)"]
)
def test_without_the_extra(call: str) -> None:
    hide = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda name: name != 'pyspark' and find(name)"
    line = last_line(f"{hide} or None\nfrom cordwood import pipeline\n{call}")
    assert line == "cordwood.errors.Unavailable: Spark needs pyspark, not installed here: pip install 'cordwood[spark]'"


WITHOUT_THE_PACKAGE = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {"url": sys.argv[1], "topic": "events"}
for action in (
    lambda: spark.read.format("cordwood").options(**options).load(),
    lambda: spark.range(1).write.format("cordwood").mode("append").options(**options).save(),
):
    try:
        action()
    except Exception as error:
        print(str(error).replace("\\n", " "))
"""


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_without_pyspark_python_spark_fails_as_the_pages_say(tmp_path: Path) -> None:
    """Spark runs the python3 of the PATH, and here that one has no Cordwood."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    environment = {**os.environ, "PATH": f"{tmp_path}/bare/bin:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYSPARK_PYTHON", None)
    command = [sys.executable, "-c", WITHOUT_THE_PACKAGE, f"file:{tmp_path}/data"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    failed = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: cordwood"
    assert [failed in line for line in ran.stdout.splitlines()] == [True, True], ran.stdout + ran.stderr
    for name in ("docs/spark.md", "docs/spark-writing.md"):
        assert failed in page(name)
        assert "PYSPARK_PYTHON" in page(name)


@pytest.mark.processes
def test_importing_it_loads_no_spark() -> None:
    code = "import sys; from cordwood import pipeline; sys.exit(bool({'pyspark', 'pyarrow', 'py4j'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
