"""Logins, rights and certificates: errors in bounded time that name what is missing, and never a secret."""

import asyncio
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

import cordwood
from cordwood import Batch, Client, Timeout, Unavailable
from cordwood.testing.kafka import Broker
from tests.kafka.faults import guarded

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SOON = 30.0
WRONG = "not-the-passw0rd"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Broker]:
    with guarded.start(folder) as broker:
        yield broker


@pytest.fixture
async def written(server: Broker, topic: str) -> str:
    """A topic with one record, by somebody who may do everything."""
    async with cordwood.connect(server.url) as cw:
        await cw.create_topic(topic)
        await cw.log(topic).append(Batch.of([b"there"]))
    return topic


async def values(cw: Client, topic: str) -> list[bytes | None]:
    return [record.value async for batch in cw.log(topic).read() for record in batch]


async def test_a_user_with_rights(server: Broker, written: str) -> None:
    guarded.allow(server, "writer", written, AclOperation.READ, AclOperation.WRITE)
    async with cordwood.connect(guarded.url(server), config=guarded.login("writer")) as cw:
        assert await cw.log(written).append(Batch.of([b"mine"])) == range(1, 2)
        assert await values(cw, written) == [b"there", b"mine"]


async def test_a_user_whose_password_is_kept_as_a_hash(server: Broker, written: str) -> None:
    guarded.add_scram_user(server, "hashed", "hashed-s3cret")
    guarded.allow(server, "hashed", written, AclOperation.READ)
    login = guarded.login("hashed", "hashed-s3cret", "SCRAM-SHA-256")
    async with cordwood.connect(guarded.url(server), config=login) as cw:
        assert await values(cw, written) == [b"there"]


async def test_settings_in_the_url(server: Broker, written: str) -> None:
    guarded.allow(server, "reader", written, AclOperation.READ)
    login = "&".join(f"{name}={value}" for name, value in guarded.login("reader").items())
    async with cordwood.connect(f"{guarded.url(server)}?{login}") as cw:
        assert await values(cw, written) == [b"there"]
        assert "s3cret" not in repr(cw) + cw.url


async def test_a_user_without_any_right_sees_nothing(server: Broker, written: str) -> None:
    async with cordwood.connect(guarded.url(server), config=guarded.login("nobody")) as cw, asyncio.timeout(SOON):
        assert written not in await cw.topics()
        for call in (
            lambda: cw.topic(written),
            lambda: cw.create_topic(f"{written}-2"),
            lambda: cw.delete_topic(written),
            lambda: cw.log(written).bounds(),
            lambda: cw.log(written).trim(before=1),
            lambda: anext(cw.log(written).read()),
            lambda: cw.log(written).append(Batch.of([b"not mine"])),
        ):
            with pytest.raises(Unavailable, match=f"{written}.*right"):
                await call()


async def test_rights_that_come_later_count_for_the_same_connection(server: Broker, written: str) -> None:
    """A producer without any right to write fails for good: it must be made anew."""
    async with cordwood.connect(guarded.url(server), config=guarded.login("nobody")) as cw:
        log = cw.log(written)
        with pytest.raises(Unavailable, match="right"):
            await log.append(Batch.of([b"too early"]))
        guarded.allow(server, "nobody", written, AclOperation.READ, AclOperation.WRITE)
        async with asyncio.timeout(SOON):
            while True:
                try:
                    await log.append(Batch.of([b"in time"]))
                    break
                except Unavailable:  # what was known of the topic is believed for a while
                    await asyncio.sleep(0.1)
        assert await values(cw, written) == [b"there", b"in time"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_an_error_in_time_and_shown_nowhere(
    server: Broker, mechanism: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    config = {**guarded.login("writer", WRONG, mechanism), "debug": "security,broker"}
    async with asyncio.timeout(SOON):
        with pytest.raises((Unavailable, Timeout)) as caught:
            await cordwood.connect(guarded.url(server), config=config, timeout=5)
    assert isinstance(caught.value, Unavailable), "it can be told from a server that is away"
    assert "did not let us in" in str(caught.value)
    shown = (
        "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text + str(capfd.readouterr())
    )
    assert WRONG not in shown


async def test_a_server_with_a_certificate(server: Broker, folder: Path) -> None:
    async with cordwood.connect(f"kafka://{server.address(guarded.TLS)}", config=guarded.tls(folder)) as cw:
        await cw.topics()


async def test_a_certificate_that_nobody_vouches_for(server: Broker) -> None:
    async with asyncio.timeout(SOON):
        with pytest.raises(Unavailable, match="certificate"):
            await cordwood.connect(
                f"kafka://{server.address(guarded.TLS)}", config={"security.protocol": "SSL"}, timeout=5
            )


async def test_a_plain_client_at_a_guarded_listener_is_told_in_time(server: Broker) -> None:
    async with asyncio.timeout(SOON):
        with pytest.raises((Unavailable, Timeout)):
            await cordwood.connect(guarded.url(server), timeout=2)
