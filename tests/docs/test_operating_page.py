import dataclasses
import importlib
from pathlib import Path
from typing import Any

import cordwood
from cordwood import Batch, errors
from cordwood.log.native.published import Owner
from cordwood.log.native.staged import StagedWriter, Write
from cordwood.log.native.world.clock import RealClock
from cordwood.log.native.world.disk import RealDisk
from tests.docs.pages import page, rows

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
    table = PAGE.partition("## Errors")[2].partition("## Limits")[0]
    explained = [row[0].strip("`") for row in rows(table)]
    assert sorted(explained) == sorted(kind.__name__ for kind in errors.CordwoodError.__subclasses__())


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def test_the_page_names_every_file_of_a_folder(tmp_path: Path) -> None:
    table = PAGE.partition("## One writer")[0]
    named = {name.strip(" `") for row in rows(table) for name in row[0].split(",")}
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"x"]))
        write = Write("sink")
        writer = StagedWriter(RealDisk(tmp_path), RealClock(), write.file_name(0, "0"))
        writer.add(Owner(1, 0), "events/0", Batch.of([b"x"]))
        writer.finish()
        files = files_of(tmp_path)
    patterns = {"plogs": "plogs/*.plog", "staged": "staged/*.frames"}
    assert {patterns.get(name.split("/")[0], name) for name in files} == named
