"""docs/performance.md: the pages of results that it names are there."""

import re

from tests.support.docs.pages import ROOT, page


def test_the_pages_of_results_that_it_names_are_all_that_a_bench_wrote() -> None:
    named = set(re.findall(r"\]\(\.\./bench/results/([^)]+)\)", page("docs/performance.md")))
    assert named == {path.name for path in (ROOT / "bench" / "results").glob("*.md")}
