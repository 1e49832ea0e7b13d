"""A metadata manager on simulated parts, with plogs so small that it rolls over all the time."""

from collections.abc import Callable
from functools import partial
from random import Random

from cordwood.errors import Unavailable
from cordwood.log.native.chain.chain import Link
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import Incremental, Init, MetadataRecord
from cordwood.log.native.metadata.manager import MetadataManager
from cordwood.log.native.plog import PlogId, PlogStore
from cordwood.simulation.clock import SimulatedClock
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.workers import SimulatedWorkers


def plog(number: int) -> PlogId:
    return PlogId("local", "0", number)


def chain_of(first: int, count: int) -> list[MetadataRecord]:
    """The records of a chain that grows by one plog a rollover, the last of them open."""
    links = [Link(plog(first + place), 10 * place) for place in range(count)]
    seals = [link.sealed(100, link.first_offset + 10, 5) for link in links]
    return [Init(links[0]), *(Incremental(seal, link) for seal, link in zip(seals, links[1:], strict=False))]


class ManagedFolder:
    """The parts that a manager is given, and how it is opened again."""

    def __init__(self, disk: SimulatedDisk | None = None, coordinator: SimulatedCoordinator | None = None) -> None:
        self.disk = disk or SimulatedDisk()
        self.plogs = PlogStore(self.disk)
        self.plogs.prepare()
        self.coordinator = coordinator or SimulatedCoordinator(self.disk)
        self.recorded: list[str] = []
        self.rollovers: list[Durable] = []
        self.delete_older = True
        self.clock = SimulatedClock()
        self.look_at_rollover: Callable[[Durable], None] = self.rollovers.append
        self.open()

    def open(self) -> None:
        self.workers = SimulatedWorkers(Random(1))
        self.manager = MetadataManager(
            self.plogs,
            self.workers,
            self.clock,
            self.coordinator,
            epoch=self.coordinator.take_over(),
            new_id=lambda: PlogId.new("local", "0"),
            published=None,
            plog_bytes_min=512,
            on_durable=lambda durable: None,
            on_rollover=self._switched,
        )

    def _switched(self, durable: Durable) -> bool:
        self.look_at_rollover(durable)
        return self.delete_older

    def record(self, service: str, *records: MetadataRecord, run: bool = True) -> None:
        self.manager.record(service, records, partial(self.recorded.append, service))
        if run:
            self.workers.run_until_idle()

    def close(self) -> None:
        self.manager.finish(Unavailable("closed", reason="closed"), lambda: self.recorded.append("closed"))
        self.workers.run_until_idle()
        assert self.recorded.pop() == "closed"

    def after_power_cut(self) -> "ManagedFolder":
        """The folder after a power cut that took everything that was not synced."""
        disk = self.disk.power_cut("none")
        return ManagedFolder(disk, self.coordinator.after_crash(disk))

    def latest(self) -> PlogId:
        return PlogId.parse(self.coordinator.metadata_plog() or "")

    def chains(self) -> dict[str, tuple[Link, ...]]:
        return {service: chain.links for service, chain in self.manager.chains.items()}
