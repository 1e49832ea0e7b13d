"""The examples of docstrings, `>>> …`, say what happens."""

import doctest
from importlib import import_module

import pytest

from tests.support.docs.pages import ROOT

SOURCE = ROOT / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    ran = doctest.testmod(import_module(name))
    assert ran.attempted > 0
    assert ran.failed == 0
