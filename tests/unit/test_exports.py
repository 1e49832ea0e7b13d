import ast
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib import import_module
from inspect import isfunction
from pathlib import Path

import pytest

import cordwood
import cordwood.store

PUBLIC_NAMES = [
    "Appended",
    "Batch",
    "BinaryColumn",
    "Client",
    "Conflict",
    "CordwoodError",
    "Corrupt",
    "DeadLetter",
    "Event",
    "EventReader",
    "EventStore",
    "ExpiredReport",
    "ExplainedAction",
    "Fenced",
    "FollowReader",
    "HeaderColumn",
    "InvalidInput",
    "Journal",
    "JournalStats",
    "Log",
    "NotFound",
    "PartitionsReader",
    "Position",
    "PurgeReport",
    "Reader",
    "Record",
    "Recovered",
    "RecoveryReport",
    "Region",
    "RegionReader",
    "RegionStats",
    "Sealed",
    "Snapshot",
    "StoredBatch",
    "StoredEvent",
    "StoredRecord",
    "TableEntries",
    "TableMeta",
    "Timeout",
    "TooLarge",
    "TopicInfo",
    "Trimmed",
    "Unavailable",
    "Wal",
    "__version__",
    "connect",
    "sync",
]


def test_these_are_the_public_names() -> None:
    assert sorted(cordwood.__all__) == sorted(PUBLIC_NAMES)


def test_every_public_name_is_there() -> None:
    for name in PUBLIC_NAMES:
        assert getattr(cordwood, name) is not None


# The first two are awaited or entered at once, and give an object that is exported; `Rows` is an alias of a list.
KEPT_INSIDE = {"Connecting", "Opening", "Rows"}


@pytest.mark.parametrize("package", [cordwood, cordwood.sync], ids=["async", "blocking"])
def test_all_that_public_calls_return_is_exported(package: types.ModuleType) -> None:
    # The rows of a store are public in its own package, for programs that implement one.
    exported = {*cordwood.__all__, *package.__all__, *cordwood.store.__all__, *KEPT_INSIDE}
    for name in package.__all__:
        for call, returned in calls_of(getattr(package, name)):
            ours = {word for word in re.findall(r"[A-Z]\w+", returned) if word in NAMES_OF_OURS}
            assert ours <= exported, f"{name}.{call} -> {returned}"


NAMES_OF_OURS = {
    name
    for path in Path(cordwood.__file__).parent.rglob("*.py")
    for name in re.findall(r"^class ([A-Z]\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def calls_of(public: object) -> Iterator[tuple[str, str]]:
    """The public calls of a class, or the function itself, each with the annotation of the value that it returns."""
    members = vars(public) if isinstance(public, type) else {"": public}
    for name, member in members.items():
        call = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if isfunction(call) and (not name.startswith("_") or name in ("__iter__", "__anext__", "__getitem__")):
            yield name, str(call.__annotations__.get("return", ""))


def test_dir_lists_also_what_was_not_used_yet() -> None:
    assert {*PUBLIC_NAMES} <= printed_by("import cordwood; print(*dir(cordwood))")


def test_type_checkers_see_the_same_names_as_programs() -> None:
    source = ast.parse(Path(cordwood.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in source.body if isinstance(node, ast.If)]
    seen = {
        # A public module is imported from the package itself: `from cordwood import sync as sync`.
        alias.asname: f"cordwood.{alias.name}" if node.module == "cordwood" else node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == cordwood._MODULES


def test_a_public_module_is_exported_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(cordwood), "url", raising=False)
    monkeypatch.setitem(cordwood._MODULES, "url", "cordwood.url")
    assert cordwood.__getattr__("url") is sys.modules["cordwood.url"]


@pytest.mark.parametrize("name", [name for name in PUBLIC_NAMES if name != "__version__"])
def test_every_public_name_says_what_it_is_and_shows_it(name: str) -> None:
    public = getattr(cordwood, name)
    assert is_shown(public)
    members = vars(public) if isinstance(public, type) else {}
    for member, value in members.items():
        if not member.startswith("_") and (callable(value) or isinstance(value, property | classmethod)):
            assert value.__doc__, f"{name}.{member}"


@pytest.mark.parametrize("package", ["sync", "pipeline", "testing", "testing.kafka"])
def test_every_public_name_of_a_package_says_what_it_is_and_shows_it(package: str) -> None:
    module = import_module(f"cordwood.{package}")
    for name in module.__all__:
        assert is_shown(getattr(module, name)), name


@pytest.mark.parametrize(
    "kind", [cordwood.Client, cordwood.Log, cordwood.Region, cordwood.Wal], ids=lambda x: x.__name__
)
def test_every_method_that_a_program_calls_is_shown(kind: type) -> None:
    methods = [name for name, value in vars(kind).items() if not name.startswith("_") and isfunction(value)]
    assert [name for name in methods if name != "close" and not is_shown(getattr(kind, name))] == []


def is_shown(public: object) -> bool:
    """Whether its docstring has an example."""
    return ">>>" in (public.__doc__ or "") or "```" in (public.__doc__ or "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'cordwood' has no attribute 'conect'"):
        cordwood.conect  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {
        "asyncio",
        "confluent_kafka",
        "importlib.metadata",
        "py4j",
        "pyarrow",
        "pyspark",
        "pyspark_cordwood",
        "sqlite3",
        "ssl",
    }
    assert not heavy & loaded_after("import cordwood")


def test_a_name_is_loaded_when_it_is_used() -> None:
    assert "cordwood.errors" not in loaded_after("import cordwood")
    assert "cordwood.errors" in loaded_after("import cordwood; cordwood.NotFound")


def loaded_after(code: str) -> set[str]:
    return printed_by(f"{code}\nprint(*sys.modules)")


def printed_by(code: str) -> set[str]:
    """The words that `code` prints in a fresh interpreter."""
    # -S: site-packages' .pth files may import what they like before the first line runs.
    script = f"import sys; sys.path[:0] = {sys.path!r}\n{code}"
    run = subprocess.run([sys.executable, "-S", "-c", script], check=True, capture_output=True, text=True)
    return set(run.stdout.split())
