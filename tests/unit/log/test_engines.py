"""The registry of engines: one entry for each scheme."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from cordwood.errors import Unavailable
from cordwood.log.engines import ENGINES, Part, engine_of, load
from cordwood.url import FileUrl, KafkaUrl, PlogUrl, Url

URLS: dict[str, Url] = {"file": FileUrl(Path("/srv/data")), "kafka": KafkaUrl(("b1:9092",))}


@pytest.mark.parametrize("part", ["engine", "spark_source", "spark_sink"])
@pytest.mark.parametrize("scheme", sorted(ENGINES))
def test_every_part_of_every_engine_can_be_loaded(scheme: str, part: Part) -> None:
    module, _, name = getattr(ENGINES[scheme], part).partition(":")
    assert load(URLS[scheme], part) is getattr(import_module(module), name)


def test_a_scheme_without_an_engine_is_unsupported() -> None:
    with pytest.raises(Unavailable, match="plog://c1:7400/main: this version of cordwood has no engine") as caught:
        engine_of(PlogUrl(("c1:7400",), "main"))
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize(("part", "where"), [("engine", ""), ("spark_source", " in every process of Spark")])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, part: Part, where: str) -> None:
    module = getattr(ENGINES["kafka"], part).partition(":")[0]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unavailable, match=rf"needs confluent-kafka{where}: pip install 'cordwood\[kafka\]'") as caught:
        load(URLS["kafka"], part)
    assert caught.value.reason == "missing-extra"


def test_a_defect_in_an_engine_without_a_package_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cordwood.log.native.api.engine", None)
    with pytest.raises(ImportError):
        load(URLS["file"], "engine")
