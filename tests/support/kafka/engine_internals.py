"""The parts of the Kafka engine that tests look into."""

from cordwood import Client
from cordwood.log.kafka.admin import Admin
from cordwood.log.kafka.cluster import SharedCluster
from cordwood.log.kafka.engine import KafkaEngine
from cordwood.log.kafka.producer import Sender


def cluster_of(cw: Client) -> SharedCluster:
    engine = cw._engine
    assert isinstance(engine, KafkaEngine)
    return engine._cluster


def admin_of(cluster: SharedCluster) -> Admin:
    return cluster._admin


def senders_of(cluster: SharedCluster) -> list[Sender]:
    return list(cluster._senders.values())
