"""Logins, rights and secrets, on a broker that asks for them."""

import logging
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import cordwood
from cordwood import Batch, InvalidInput, Unavailable
from cordwood.testing.kafka import Broker

SECRET = "a-secret-of-reader"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' user_reader="{SECRET}" user_writer="a-secret-of-writer";'
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """Without a login everything is allowed; with one, what access lists say."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    }
    with Broker(settings=settings, listeners=["SASL_PLAINTEXT"]) as broker:
        yield broker


def allow(kafka: Broker, topic: str, user: str, *operations: AclOperation) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for created in admin.create_acls(rules).values():
        created.result(30)


def login(user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


async def test_a_user_who_may_only_read_is_refused_before_anything_is_sent(guarded: Broker, topic: str) -> None:
    async with cordwood.connect(guarded.url) as cw:
        await cw.create_topic(topic)
        await cw.log(topic).append(Batch.of([b"theirs"]))
    allow(guarded, topic, "reader", AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    url = f"kafka://{guarded.address('SASL_PLAINTEXT')}"
    async with cordwood.connect(url, config=login("reader", SECRET), timeout=10) as cw:
        log = cw.log(topic)
        assert [value async for batch in log.read() for value in batch.values] == [b"theirs"]
        with pytest.raises(Unavailable, match="WRITE") as caught:
            await log.append(Batch.of([b"ours"]))
        assert caught.value.outcome == "not_written"
        for call in (log.trim(before=1), cw.delete_topic(topic), cw.create_topic(f"{topic}.new")):
            with pytest.raises(Unavailable, match="rights"):
                await call
        assert await log.bounds() == (0, 1)


async def test_a_user_who_sees_no_settings_of_a_topic_can_write_it(guarded: Broker, topic: str) -> None:
    async with cordwood.connect(guarded.url) as cw:
        await cw.create_topic(topic)
    allow(guarded, topic, "writer", AclOperation.WRITE, AclOperation.DESCRIBE)
    url = f"kafka://{guarded.address('SASL_PLAINTEXT')}"
    async with cordwood.connect(url, config=login("writer", "a-secret-of-writer"), timeout=10) as cw:
        assert await cw.log(topic).append(Batch.of([b"x"] * 3)) == range(3)
        with pytest.raises(cordwood.TooLarge) as caught:
            await cw.log(topic).append(Batch.of([bytes(3_000_000)]))
        assert caught.value.outcome == "not_written"


async def test_a_wrong_password_is_unavailable_and_is_shown_nowhere(
    guarded: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"kafka://{guarded.address('SASL_PLAINTEXT')}"
    with pytest.raises(Unavailable) as caught:
        await cordwood.connect(url, config=login("reader", "a-wrong-secret"), timeout=3)
    assert "a-wrong-secret" not in str(caught.value) + repr(caught.value) + caplog.text
    assert "uthentication" in str(caught.value)
    cw = await cordwood.connect(url, config={**login("reader", SECRET), "debug": "all"}, timeout=10)
    assert SECRET not in repr(cw) + repr(cw.log("x")) + repr(cw._engine._connection.cluster.settings)  # type: ignore[attr-defined]
    await cw.close()
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"no.such.setting": "1"}, "no.such.setting"),
        ({"sasl.password": "hidden", "security.protocol": "hidden"}, "security.protocol"),
        ({"acks": "1"}, "acks cannot be set .* in-sync"),
        ({"enable.idempotence": "false"}, "must not write twice"),
        ({"auto.offset.reset": "earliest"}, "told, not skipped"),
    ],
)
async def test_a_wrong_setting_is_named_without_the_secrets_beside_it(config: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        await cordwood.connect("kafka://127.0.0.1:1", config=config, timeout=1)
    assert "hidden" not in str(caught.value)
