"""The requirements are locked whole, and name no place that they were fetched from."""

import re
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).parents[2] / "requirements"


@pytest.mark.parametrize("name", ["base.txt", "dev.txt"])
def test_every_requirement_is_pinned_with_hashes_and_no_index_is_named(name: str) -> None:
    text = re.sub(r"\\\n *", "", (REQUIREMENTS / name).read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._\[\]-]+==\S+( ; [^-]*)?( ?--hash=sha256:[0-9a-f]{64})+", line), line[:80]
    assert "://" not in text
