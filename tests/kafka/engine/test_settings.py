"""What librdkafka is told by the user: a wrong setting, and one that the promises rest on, is refused."""

import pytest

import cordwood
from cordwood import InvalidInput


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
        ({"auto.offset.reset": "earliest"}, "told, not skipped"),
    ],
)
async def test_a_wrong_setting_is_named_without_the_secrets_beside_it(config: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        await cordwood.connect("kafka://127.0.0.1:1", config=config, timeout=1)
    assert "hidden" not in str(caught.value)
