"""The conformance suite, where pytest is missing."""

import subprocess
import sys

import pytest


@pytest.mark.processes
@pytest.mark.parametrize("missing", ["pytest", "pytest_asyncio"])
def test_without_pytest_it_says_in_one_line_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import cordwood.testing"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert (
        ran.stderr.splitlines()[-1] == "ImportError: cordwood.testing needs pytest: pip install pytest pytest-asyncio"
    )
