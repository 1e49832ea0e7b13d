import pytest
from confluent_kafka.admin import AdminClient

from cordwood.testing.kafka import Cluster
from tests.support.kafka import bare_client

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_three_servers_know_each_other(kafka_cluster: Cluster) -> None:
    for broker in kafka_cluster.brokers:
        assert len(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).brokers) == 3


def test_it_outlives_the_leader(kafka_cluster: Cluster) -> None:
    bare_client.create(kafka_cluster.bootstrap, "outlives", replication=3)
    bare_client.write(kafka_cluster.bootstrap, "outlives", b"before")
    leader = kafka_cluster.leader("outlives")
    leader.kill()
    bare_client.write(kafka_cluster.bootstrap, "outlives", b"after")
    assert kafka_cluster.leader("outlives") is not leader
    kafka_cluster.heal()
    assert leader.running
    assert bare_client.read(kafka_cluster.bootstrap, "outlives", 2) == [b"before", b"after"]
