"""A Kafka url where nothing listens is reported soon; a server that is slow has its time."""

import socket
from collections.abc import Iterator

import pytest

from cordwood.cli.refused import check_listening
from cordwood.errors import Unavailable
from cordwood.testing.servers.ports import free_ports
from cordwood.url import KafkaUrl, parse_url
from tests.cli.conftest import Command


@pytest.fixture
def deaf() -> Iterator[str]:
    """An address that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def url_of(*servers: str) -> KafkaUrl:
    url = parse_url(f"kafka://{','.join(servers)}?sasl.password=s3cret")
    assert isinstance(url, KafkaUrl)
    return url


async def test_servers_that_refuse_are_named_without_secrets() -> None:
    servers = [f"{host}:{port}" for host, port in zip(("127.0.0.1", "localhost"), free_ports(2), strict=True)]
    with pytest.raises(Unavailable, match=f"kafka://{','.join(servers)}: nothing listens there") as caught:
        await check_listening(url_of(*servers), timeout=0.2)
    assert (caught.value.reason, caught.value.retryable) == ("unreachable", True)
    assert "for 0.2 s" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_server_that_accepts_and_is_slow_is_not_refused(deaf: str) -> None:
    (port,) = free_ports(1)
    await check_listening(url_of(f"127.0.0.1:{port}", deaf), timeout=30)


async def test_a_name_that_is_unknown_is_not_refused() -> None:
    await check_listening(url_of("no-such-host.invalid:9092"), timeout=30)


async def test_a_server_that_begins_to_listen_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        refusals = 0

        async def listen(_: float) -> None:
            nonlocal refusals
            refusals += 1
            server.bind(("127.0.0.1", port))
            server.listen()

        monkeypatch.setattr("cordwood.cli.refused.asyncio.sleep", listen)
        await check_listening(url_of(f"127.0.0.1:{port}"), timeout=30)
    assert refusals == 1


def test_the_command_does_not_wait_for_a_server_that_refuses(run: Command) -> None:
    (port,) = free_ports(1)
    ran = run("topics", "--url", f"kafka://127.0.0.1:{port}")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"cordwood: kafka://127.0.0.1:{port}: nothing listens there, every connection was refused for 2 s:"
        " is Kafka running?\n"
    )
