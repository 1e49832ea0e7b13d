import dataclasses
import importlib
import re
import sqlite3
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, get_args

import pytest

import cordwood
from cordwood import Batch, Event, errors
from cordwood.log.native.env.clock import RealClock
from cordwood.log.native.env.disk import RealDisk
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged import StagedWriter, Write, abort_attempt
from tests.support.crash.damaged_folder import check_writing, small_folder
from tests.support.docs.pages import page, rows

PAGE = page("docs/operating.md")


def resolved(dotted: str) -> Any:
    """The value that a dotted name of the code has; of a dataclass's field, its default."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            fields = {f.name: f.default for f in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else {}
            value = fields[name] if name in fields else getattr(value, name)
        return value
    raise AssertionError(dotted)


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    limits = rows(PAGE.partition("## Limits")[2])
    assert len(limits) > 10
    for what, limit, name in limits:
        assert float(limit.replace(",", "")) == resolved(name.strip("`")), what


def test_the_page_explains_every_error() -> None:
    table = PAGE.partition("## Errors")[2].partition("| reason |")[0]
    explained = [row[0].strip("`") for row in rows(table)]
    assert sorted(explained) == sorted(kind.__name__ for kind in errors.CordwoodError.__subclasses__())
    retryable = {name: says for name, _, _, says in ([cell.strip("`") for cell in row] for row in rows(table))}
    passing = {kind.__name__ for kind in errors.CordwoodError.__subclasses__() if kind._passing}
    assert {name for name, says in retryable.items() if says == "yes"} == passing
    assert {name for name, says in retryable.items() if says == "by its reason"} == {"Unavailable"}


def test_the_page_explains_every_reason_and_says_what_passes() -> None:
    table = "| reason |" + PAGE.partition("| reason |")[2].partition("## ")[0]
    explained = {row[0].strip("`"): row[-1] for row in rows(table)}
    assert list(explained) == list(get_args(errors.Reason))
    for reason in get_args(errors.Reason):
        retryable = errors.Unavailable("away", reason=reason).retryable
        assert explained[reason] == ("yes" if retryable else "no"), reason


def test_a_commit_that_cannot_be_finished_is_given_up_as_the_page_says(tmp_path: Path) -> None:
    (statement,) = re.findall(r'`sqlite3 coordinator\.db "(.*)"`', PAGE)
    damaged = small_folder(tmp_path / "data", closed=False)
    damaged.put(tmp_path / "data")
    (staged,) = (tmp_path / "data" / "staged").iterdir()
    staged.unlink()
    with pytest.raises(errors.Corrupt, match=r"a commit of 3 records was decided, .* put it back from a copy"):
        check_writing(tmp_path / "data", damaged.truth)
    with sqlite3.connect(tmp_path / "data" / "coordinator.db") as db:
        db.execute(statement)
    db.close()
    values = {**damaged.truth.values, ("parts", 0): damaged.truth.values["parts", 0][:-3]}
    check_writing(tmp_path / "data", dataclasses.replace(damaged.truth, values=values, batch=7))


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def test_the_page_names_every_file_of_a_folder(tmp_path: Path) -> None:
    table = PAGE.partition("## One writer")[0]
    named = {name.strip(" `") for row in rows(table) for name in row[0].split(",")}
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"x"]))
        write = Write("sink")
        writer = StagedWriter(RealDisk(tmp_path), RealClock(), write.name(0, "c0ffee", "0"))
        writer.add(Owner(1, 0), "events/0", Batch.of([b"x"]))
        writer.finish()
        abort_attempt(RealDisk(tmp_path), RealClock(), "given up")
        await cw.journal("orders").append("order-1", [Event.text("x")])
        files = files_of(tmp_path)
    patterns = ("plogs/*.plog", "staged/*.frames", "staged/*.aborted")
    found = {name: [pattern for pattern in patterns if fnmatch(name, pattern)] or [name] for name in files}
    assert {pattern for (pattern,) in found.values()} == named
