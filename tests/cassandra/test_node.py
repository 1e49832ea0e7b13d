"""`cordwood.testing.cassandra`: a node starts, dies and starts again, and keeps what it acked."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.errors import Unavailable
from cordwood.store.cassandra.driver import Link
from cordwood.store.cassandra.settings import parse_settings
from cordwood.store.url import CassandraUrl
from cordwood.testing.cassandra import Node
from cordwood.testing.cassandra.probe import execute

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ONE_COPY = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        execute(
            node.address,
            [f"CREATE KEYSPACE kept WITH replication = {ONE_COPY}", "CREATE TABLE kept.rows (name text PRIMARY KEY)"],
        )
        yield node


def read(node: Node, query: str) -> list[tuple[str, ...]]:
    settings = parse_settings(CassandraUrl((node.address,), "kept"), {})
    link = Link(settings, 30)
    try:
        return link.run(query)
    finally:
        link.close()


@pytest.mark.parametrize("end", [Node.kill, Node.stop])
def test_a_restart_keeps_address_and_rows(node: Node, end: object) -> None:
    names = [f"{getattr(end, '__name__', '')}-{number}" for number in range(20)]
    execute(node.address, [f"INSERT INTO kept.rows (name) VALUES ('{name}')" for name in names])
    before = node.address, node.pid
    assert callable(end)
    end(node)
    assert not node.running
    node.restart()
    assert node.address == before[0]
    assert node.pid != before[1]
    assert {name for name, *_ in read(node, "SELECT name FROM kept.rows")} >= set(names)


def test_a_paused_node_answers_nothing_and_then_again(node: Node) -> None:
    node.pause()
    with socket.create_connection((node.host, node.port), 5):
        pass  # the system answers for it
    assert node.running
    with pytest.raises(Unavailable, match="does not answer after 0 s"):
        node.wait_ready(seconds=0)
    node.resume()
    node.wait_ready()


def test_it_listens_on_this_machine_alone(node: Node) -> None:
    tables = [Path(f"/proc/{node.pid}/net/{kind}").read_text() for kind in ("tcp", "tcp6")]
    fields = [line.split() for table in tables for line in table.splitlines()]
    listening = [each[1].split(":") for each in fields if each[3] == "0A"]
    addresses = [address for address, port in listening if port == f"{node.port:04X}"]
    assert addresses
    # The last 32 bits are 127.0.0.1, in the order of the machine.
    assert all(address.endswith("0100007F") for address in addresses)


def test_a_setting_that_stops_it_is_an_error_with_its_words() -> None:
    with pytest.raises(Unavailable, match="ended with status") as caught:
        Node({"partitioner": "none"})
    assert "partitioner" in str(caught.value)
    assert caught.value.reason == "failed"


def test_a_node_ends_with_the_program_that_made_it() -> None:
    code = (
        "import os, signal; from cordwood.testing.cassandra import Node; node = Node(); print(node.pid, flush=True);"
        " os.kill(os.getpid(), signal.SIGKILL)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    pid = int(ran.stdout)
    for _ in range(100):
        if not _exists(pid):
            return
        subprocess.run(["sleep", "0.1"], check=True)
    raise AssertionError(f"the node {pid} outlives its program")


def _exists(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as status:
            return "State:\tZ" not in status.read()
    except FileNotFoundError:
        return False
