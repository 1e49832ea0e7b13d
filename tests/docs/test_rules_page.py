"""The page of rules names places and tests that exist, and every rule that the code names."""

import re

from tests.support.docs.pages import ROOT, page, rows

CODE = ROOT / "src" / "cordwood"
TESTS = ROOT / "tests"
# Where the rules are kept, and where they are tried: places and tests are named from here.
SOURCES = {
    "": CODE / "log" / "native",
    "wal/": CODE / "wal",
    "journal/": CODE / "journal",
    "store/": CODE / "store",
    "pipeline/": CODE / "pipeline",
}
OF_LOGS = [TESTS / "crash", TESTS / "embedded", TESTS / "wal", TESTS / "unit" / "wal"]
OF_JOURNALS = [TESTS / "journal", TESTS / "store", TESTS / "unit" / "journal", CODE / "testing" / "store"]
OF_THE_PIPELINE = [TESTS / "pipeline"]
TEXT = page("docs/rules.md")


def rules_in(text: str) -> set[str]:
    return set(re.findall(r"\bR\d+\b", text))


def sections() -> dict[str, str]:
    parts = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    return {part.split(":")[0]: part for part in parts if re.match(r"R\d+: ", part)}


def test_every_rule_that_the_code_names_has_a_section() -> None:
    named = {
        rule
        for folder in SOURCES.values()
        for path in folder.rglob("*.py")
        for rule in rules_in(path.read_text(encoding="utf-8"))
    }
    assert named == set(sections())


def test_every_place_names_its_rule_and_every_test_exists() -> None:
    for rule, section in sections().items():
        table = rows(section)
        assert table, rule
        for where, test in table:
            places = re.findall(r"`([^`]+)`", where)
            for place in places:
                assert rule in rules_in(source(place)), f"{place} does not name {rule}"
            file, name = test.strip("`").split("::")
            folders = OF_JOURNALS if places[0].startswith(("journal/", "store/")) else OF_LOGS
            if places[0].startswith("pipeline/"):
                folders = OF_THE_PIPELINE
            (path,) = [path for folder in folders for path in folder.rglob(file)]
            # The tests of the conformance suites are methods.
            assert re.search(rf"^ *(async )?def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE), test


def source(place: str) -> str:
    prefix = next((prefix for prefix in SOURCES if prefix and place.startswith(prefix)), "")
    return (SOURCES[prefix] / place.removeprefix(prefix)).read_text(encoding="utf-8")
