import socket

import pytest
from confluent_kafka.admin import AdminClient

from cordwood.errors import Unavailable
from cordwood.testing.kafka import Broker
from cordwood.testing.servers.ports import free_ports
from tests.support.kafka import bare_client

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_it_answers_and_listens_on_this_machine_alone(broker: Broker) -> None:
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10)
    assert [f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()] == [broker.bootstrap]
    assert broker.bootstrap.startswith("127.0.0.1:")
    assert broker.url == f"kafka://{broker.bootstrap}"


def test_the_session_has_one_server_for_all_tests(kafka: Broker, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue("kafka") is kafka
    assert kafka.running


def test_it_makes_no_topic_that_nobody_created(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert admin.list_topics("nobody-made-this", timeout=10).topics["nobody-made-this"].error is not None


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill])
def test_a_restart_keeps_address_and_records(broker: Broker, end: object) -> None:
    topic = f"kept-{getattr(end, '__name__', '')}"
    bare_client.create(broker.bootstrap, topic)
    bare_client.write(broker.bootstrap, topic, b"a", b"b")
    before = broker.bootstrap, broker.pid
    assert callable(end)
    end(broker)
    assert not broker.running
    broker.restart()
    assert broker.bootstrap == before[0]
    assert broker.pid != before[1]
    assert bare_client.read(broker.bootstrap, topic, 2) == [b"a", b"b"]


def test_a_paused_server_answers_nothing_and_then_again(broker: Broker) -> None:
    broker.pause()
    with socket.create_connection(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2])), 5):
        pass  # the system answers for it
    assert broker.running
    with pytest.raises(Unavailable, match="does not answer after 0 s"):
        broker.wait_ready(seconds=0)
    broker.resume()
    broker.wait_ready()


def test_settings_go_before_ours() -> None:
    with Broker({"auto.create.topics.enable": "true"}) as broker:
        bare_client.write(broker.bootstrap, "made-by-writing", b"a")


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(Unavailable, match=r"(?s)status 1.*num.io.threads"):
        Broker({"num.io.threads": "none"})


def test_a_port_that_somebody_took_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def ports(count: int) -> list[int]:
        nonlocal asked
        asked += 1
        return [taken.getsockname()[1], *free_ports(count - 1)] if asked == 1 else free_ports(count)

    monkeypatch.setattr("cordwood.testing.kafka.broker.free_ports", ports)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with Broker() as broker:
            assert broker.running
    assert asked == 2


def test_closed_is_closed() -> None:
    with Broker() as broker:
        folder = broker._process.folder
        assert folder.is_dir()
    assert not folder.exists()
    broker.close()
    with pytest.raises(Unavailable, match="is closed"):
        broker.restart()
