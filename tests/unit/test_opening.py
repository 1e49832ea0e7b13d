"""Opening a folder: what it reads, and what it makes of what others left."""

from cordwood.errors import NotFound
from cordwood.log.native.coordinator import LogRow
from cordwood.simulation.coordinator import SimulatedCoordinator
from cordwood.simulation.folder import SimulatedFolder


class OvertakenCoordinator(SimulatedCoordinator):
    """Somebody's trim comes just after a topic is deleted, and before its logs are closed."""

    folder: SimulatedFolder
    told: NotFound | None = None

    def delete_topic(self, id: int) -> None:
        log = self.folder.log("a")
        super().delete_topic(id)
        try:
            log.trim(2, lambda: None)
        except NotFound as error:
            self.told = error


def test_a_trim_that_a_delete_has_overtaken_does_not_keep_the_folder_from_opening() -> None:
    folder = SimulatedFolder()
    coordinator = folder.coordinator = OvertakenCoordinator(folder.disk)
    coordinator.folder = folder
    folder.open()
    folder.create_topic("a")
    folder.put("a", 3)
    folder.run()
    folder.delete_topic("a")
    folder.run()
    folder.reopen()
    assert coordinator.told is not None
    folder.check()


class StrayRowCoordinator(SimulatedCoordinator):
    """Has the trim of a topic that is gone, as earlier versions could leave it."""

    def logs(self) -> list[LogRow]:
        return [*super().logs(), LogRow(77, 0, 5, 9)]


def test_the_trim_of_a_topic_that_is_gone_does_not_keep_the_folder_from_opening() -> None:
    folder = SimulatedFolder()
    folder.coordinator = StrayRowCoordinator(folder.disk)
    folder.open()
    folder.create_topic("a")
    folder.put("a", 3)
    folder.reopen()
    folder.check()
