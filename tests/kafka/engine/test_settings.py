"""The user's settings of librdkafka: a wrong one, and one that the promises need, is refused."""

from types import SimpleNamespace

import pytest

import cordwood
from cordwood import InvalidInput, Unavailable
from cordwood.log.kafka.settings import ClientKind, Settings
from cordwood.testing.kafka import Broker


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"no.such.setting": "1"}, "no.such.setting"),
        ({"sasl.password": "hidden", "security.protocol": "hidden"}, "security.protocol"),
        ({"acks": "1"}, "acks cannot be set .* in-sync"),
        ({"enable.idempotence": "false"}, "must not write twice"),
        ({"message.timeout.ms": "1000"}, "must not have others written twice"),
        ({"delivery.timeout.ms": "1000"}, "must not have others written twice"),
        ({"enable.gapless.guarantee": "false"}, "must not have others written twice"),
        ({"max.in.flight": "5"}, "must not have others written twice"),
        ({"auto.offset.reset": "earliest"}, "not skip them"),
    ],
)
async def test_a_wrong_setting_is_named_without_the_secrets_beside_it(config: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        await cordwood.connect("kafka://127.0.0.1:1", config=config, timeout=1)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["pass=hidden", "lifeSeconds=hidden"])
async def test_of_a_secret_that_is_a_list_no_part_is_shown(kafka: Broker, wrong: str) -> None:
    """librdkafka quotes the part that it does not understand."""
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal=me {wrong}=2",
    }
    with pytest.raises(Unavailable, match=r"sasl\.oauthbearer\.config") as caught:
        await cordwood.connect(kafka.url, config=config, timeout=5)
    assert "hidden" not in str(caught.value)


def test_later_clients_know_the_brokers_that_the_cluster_named() -> None:
    settings = Settings(("b1:9092", "b2:9092"), {}, 30)
    brokers = {1: SimpleNamespace(host="b2", port=9092), 2: SimpleNamespace(host="::1", port=9093)}
    settings.learn(SimpleNamespace(brokers=brokers))
    settings.learn(SimpleNamespace(brokers={}))
    for config in (settings.admin(print), settings.producer(1, print), settings.consumer(ClientKind(), print)):
        assert config["bootstrap.servers"] == "b1:9092,b2:9092,[::1]:9093"
    assert settings == Settings(("b1:9092", "b2:9092"), {}, 30)
    assert settings.key == Settings(("b1:9092", "b2:9092"), {}, 30).key
