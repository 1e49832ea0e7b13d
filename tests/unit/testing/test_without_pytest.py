"""`cordwood.testing` where pytest is missing."""

import subprocess
import sys

import pytest


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.processes
@pytest.mark.parametrize("missing", ["pytest", "pytest_asyncio"])
def test_without_pytest_the_suite_says_in_one_line_what_to_install(missing: str) -> None:
    ran = run(f"import sys; sys.modules[{missing!r}] = None; from cordwood.testing import LogConformance")
    assert ran.returncode == 1
    said = "ImportError: the conformance suite needs pytest: pip install 'cordwood[testing]'"
    assert ran.stderr.splitlines()[-1] == said


@pytest.mark.processes
@pytest.mark.parametrize("server", ["kafka import Broker", "cassandra import Node"])
def test_the_servers_do_without_pytest(server: str) -> None:
    ran = run(f"import sys; sys.modules['pytest'] = None; from cordwood.testing.{server}")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    import cordwood.testing

    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = cordwood.testing.Nothing
