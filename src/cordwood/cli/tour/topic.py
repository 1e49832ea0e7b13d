"""Chapter: connect to a folder, and create a topic."""

import time

from .stage import TOPIC, Facts, Stage

TITLE = "A folder, and a topic in it"


async def run(stage: Stage) -> Facts:
    stage.say("There is no server. Connecting makes the folder; a topic is a name for one or more logs.")
    stage.show(f'cw = await cordwood.connect("{stage.url}")')
    stage.show(f'await cw.create_topic("{TOPIC}")')
    began = time.perf_counter()
    info = await stage.cw.create_topic(TOPIC)
    milliseconds = (time.perf_counter() - began) * 1000
    names = sorted(path.name for path in stage.data.iterdir())
    stage.say(f"Done in {milliseconds:.1f} ms, durably. The folder now holds: {', '.join(names)}.")
    stage.say(f"What an append promises here is {info.durability!r}.")
    return {"create_ms": round(milliseconds, 3), "files": names, "durability": info.durability}
