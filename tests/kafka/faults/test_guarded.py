"""Logins, rights and certificates: errors in bounded time that name the missing right, and never a secret."""

import asyncio
import logging
import traceback
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation

import cordwood
from cordwood import Batch, Timeout, TooLarge, Unavailable
from tests.support.kafka.engine_internals import cluster_of
from tests.support.kafka.guarded_broker import PASSWORDS, Guarded, login
from tests.support.kafka.waiting import values_of

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SOON = 30.0
WRONG = "not-the-passw0rd"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with Guarded(tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture
async def written(guarded: Guarded, topic: str) -> str:
    """A topic with one record, by somebody who may do everything."""
    async with cordwood.connect(guarded.broker.url) as cw:
        await cw.create_topic(topic)
        await cw.log(topic).append(Batch.of([b"there"]))
    return topic


async def test_a_user_who_may_read_and_write_but_sees_no_settings(guarded: Guarded, written: str) -> None:
    guarded.allow("writer", written, AclOperation.READ, AclOperation.WRITE)
    async with cordwood.connect(guarded.url, config=login("writer")) as cw:
        log = cw.log(written)
        assert await log.append(Batch.of([b"mine"] * 3)) == range(1, 4)
        with pytest.raises(TooLarge) as caught:  # the server measures what this user cannot
            await log.append(Batch.of([bytes(3_000_000)]))
        assert caught.value.outcome == "not_written"
        assert await values_of(log) == [b"there", *[b"mine"] * 3]


async def test_a_user_who_may_only_read_is_refused_before_anything_is_sent(guarded: Guarded, written: str) -> None:
    guarded.allow("reader", written, AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    async with cordwood.connect(guarded.url, config=login("reader")) as cw:
        log = cw.log(written)
        assert await values_of(log) == [b"there"]
        with pytest.raises(Unavailable, match="WRITE") as caught:
            await log.append(Batch.of([b"ours"]))
        assert caught.value.outcome == "not_written"
        for call in (log.trim(before=1), cw.delete_topic(written), cw.create_topic(f"{written}.new")):
            with pytest.raises(Unavailable, match="rights"):
                await call
        assert await log.bounds() == (0, 1)


async def test_a_user_whose_password_is_kept_as_a_hash(guarded: Guarded, written: str) -> None:
    guarded.add_scram_user("hashed", "hashed-s3cret")
    guarded.allow("hashed", written, AclOperation.READ)
    config = login("hashed", "hashed-s3cret", "SCRAM-SHA-256")
    async with cordwood.connect(guarded.url, config=config) as cw:
        assert await values_of(cw.log(written)) == [b"there"]


async def test_settings_in_the_url(guarded: Guarded, written: str) -> None:
    guarded.allow("reader", written, AclOperation.READ)
    config = "&".join(f"{name}={value}" for name, value in login("reader").items())
    async with cordwood.connect(f"{guarded.url}?{config}") as cw:
        assert await values_of(cw.log(written)) == [b"there"]
        assert "s3cret" not in repr(cw) + cw.url


async def test_a_user_without_any_right_sees_nothing(guarded: Guarded, written: str) -> None:
    async with cordwood.connect(guarded.url, config=login("nobody")) as cw, asyncio.timeout(SOON):
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


async def test_rights_that_come_later_count_for_the_same_connection(guarded: Guarded, written: str) -> None:
    """A producer without any right to write fails for good: it must be made anew."""
    async with cordwood.connect(guarded.url, config=login("nobody")) as cw:
        log = cw.log(written)
        with pytest.raises(Unavailable, match="right"):
            await log.append(Batch.of([b"too early"]))
        guarded.allow("nobody", written, AclOperation.READ, AclOperation.WRITE)
        async with asyncio.timeout(SOON):
            while True:
                try:
                    await log.append(Batch.of([b"in time"]))
                    break
                except Unavailable:  # the facts of the topic are cached for a while
                    await asyncio.sleep(0.1)
        assert await values_of(log) == [b"there", b"in time"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_an_error_in_time_and_shown_nowhere(
    guarded: Guarded, mechanism: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    config = {**login("writer", WRONG, mechanism), "debug": "security,broker"}
    async with asyncio.timeout(SOON):
        with pytest.raises((Unavailable, Timeout)) as caught:
            await cordwood.connect(guarded.url, config=config, timeout=600)
    assert isinstance(caught.value, Unavailable), "it can be told from a server that is away"
    assert (caught.value.reason, caught.value.retryable) == ("permission", False)
    assert "refused the login" in str(caught.value)
    assert "uthentication" in str(caught.value)
    shown = (
        "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text + str(capfd.readouterr())
    )
    assert WRONG not in shown


async def test_a_right_password_is_shown_nowhere_either(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with cordwood.connect(guarded.url, config={**login("reader"), "debug": "all"}) as cw:
        shown = repr(cw) + repr(cw.log("x")) + repr(cluster_of(cw).settings)
    assert caplog.text
    assert PASSWORDS["reader"] not in shown + caplog.text


async def test_a_server_with_a_certificate(guarded: Guarded) -> None:
    async with cordwood.connect(guarded.tls_url, config=guarded.tls) as cw:
        await cw.topics()


async def test_a_certificate_that_nobody_vouches_for(guarded: Guarded) -> None:
    async with asyncio.timeout(SOON):
        with pytest.raises(Unavailable, match="certificate") as caught:
            await cordwood.connect(guarded.tls_url, config={"security.protocol": "SSL"}, timeout=5)
    assert (caught.value.reason, caught.value.retryable) == ("tls", False)


async def test_a_plain_client_at_a_guarded_listener_is_told_in_time(guarded: Guarded) -> None:
    async with asyncio.timeout(SOON):
        with pytest.raises((Unavailable, Timeout)):
            await cordwood.connect(guarded.url, timeout=2)
