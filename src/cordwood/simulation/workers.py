"""Workers that run one job at a time, in an order that a seed decides."""

from random import Random
from threading import Event

from cordwood.log.native.env.workers import Job


class SimulatedWorkers:
    """Jobs wait until they are run; the next one is chosen by chance, the same for the same seed.

    A job that raises has a defect. No caller waits for it, so the exception is raised here.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._waiting: list[Job] = []

    def spawn(self, job: Job) -> None:
        self._waiting.append(job)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def run_one(self) -> bool:
        """Run one of the waiting jobs; False if there is none."""
        if not self._waiting:
            return False
        self._waiting.pop(self._random.randrange(len(self._waiting)))()
        return True

    def wait(self, happened: Event) -> None:
        """Run jobs until the event is set; `RuntimeError` if no job is left that could set it."""
        while not happened.is_set():
            if not self.run_one():
                raise RuntimeError("waiting for what no job is going to do")

    def run_until_idle(self) -> None:
        while self.run_one():
            pass
