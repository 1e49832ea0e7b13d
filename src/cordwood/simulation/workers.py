"""Workers that run one job at a time, in an order that a seed decides."""

from random import Random
from threading import Event

from cordwood.log.native.env.workers import Job


class SimulatedWorkers:
    """Jobs wait until they are run; which one is next is chance, the same for the same seed.

    A job that raises has a defect: nobody waits for it, so it is raised here.
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
        """Run one of the jobs that wait; False if none does."""
        if not self._waiting:
            return False
        self._waiting.pop(self._random.randrange(len(self._waiting)))()
        return True

    def wait(self, happened: Event) -> None:
        """Run jobs until it happens; `RuntimeError` if there are none left that could make it."""
        while not happened.is_set():
            if not self.run_one():
                raise RuntimeError("waiting for what no job is going to do")

    def run_until_idle(self) -> None:
        while self.run_one():
            pass
