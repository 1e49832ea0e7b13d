"""docs/kafka.md: its code runs and prints the promised lines, and its table has the settings that librdkafka gets."""

import re

import pytest

from cordwood.log.kafka.settings import ClientKind, Settings
from cordwood.testing.kafka import Broker
from tests.support.docs.pages import blocks, page, promised

PAGE = page("docs/kafka.md")


def test_its_code_runs_and_prints_what_it_says(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = blocks(PAGE, "python")
    exec(compile(program.replace("kafka://localhost:9092", broker.url), "docs/kafka.md", "exec"), {})
    *lines, durability = capsys.readouterr().out.splitlines()
    assert lines == promised(program)
    assert durability == "in memory: an ack means the page cache of at least 1 of 1 replicas"


def test_its_settings_are_those_that_librdkafka_is_told() -> None:
    settings = Settings(("b:9092",), {}, 30)
    told = {**settings.consumer(ClientKind(follow=True), print), **settings.producer(1, print)}
    rows = re.findall(r"^\| ([a-z.]+(?:, [a-z.]+)*) \| (.+?) \|", PAGE, re.MULTILINE)
    shown = {
        name: value
        for names, values in rows
        if "." in names
        for name, value in zip(names.split(", "), values.split(", "), strict=True)
    }
    assert shown == {
        "linger.ms": str(told["linger.ms"]),
        "max.in.flight": str(told["max.in.flight"]),
        "message.timeout.ms": str(told["message.timeout.ms"]),
        "socket.timeout.ms": f"{told['socket.timeout.ms'] // 1000} s",
        "request.timeout.ms": f"{told['request.timeout.ms'] // 1000} s",
        "queue.buffering.max.kbytes": f"{told['queue.buffering.max.kbytes'] // 1024} MiB",
        "queued.max.messages.kbytes": f"{told['queued.max.messages.kbytes'] // 1024} MiB",
        "fetch.message.max.bytes": f"{told['fetch.message.max.bytes'] >> 20} MiB",
        "fetch.queue.backoff.ms": str(told["fetch.queue.backoff.ms"]),
        "isolation.level": "librdkafka's: read_committed",
    }
