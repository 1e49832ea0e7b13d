"""Chapter: the life of an order: append, crash, conflict, recover, delete, purge."""

import asyncio
import time

from cordwood.client import connect
from cordwood.errors import Conflict, CordwoodError
from cordwood.journal import Appended, Event, Journal

from .journal_writer import EVENTS, ORDERS, TOPIC, id_of, payload
from .stage import Facts, Stage, url_of

TITLE = "A journal: the life of an order"

_RIVALS = 8


async def run(stage: Stage) -> Facts:
    url = url_of(stage.folder / "journal")
    stage.say(
        f"A journal has the events of one entity. Another process appends {EVENTS} events at a time to each of"
        f" {ORDERS} orders; at a random moment it is killed."
    )
    stage.show(f'journal = cw.journal("{TOPIC}")')
    stage.show('done = await journal.append("order-1", events, expected=0)')
    lines, pid = await stage.run_until_killed("-m", f"{__package__}.journal_writer", url)
    acked = {int(order): int(last) for order, last in map(bytes.split, lines)}
    if not acked:
        raise CordwoodError(f"process {pid} ended before its first ack")
    told = sum(acked.values())
    stage.say(f"kill -9 {pid}: until then it had told of {told:,} durable events of {len(acked)} orders.")
    async with connect(url) as cw, cw.journal(TOPIC) as journal:
        began = time.perf_counter()
        found = {order: await _read(journal, order) for order in range(1, ORDERS + 1)}
        read_ms = (time.perf_counter() - began) * 1000
        lost = sum(max(0, last - found[order]) for order, last in acked.items())
        if lost:
            raise CordwoodError(f"after kill -9, {lost} of {told} acked events are missing")
        stage.say(
            f"Opened again, all {ORDERS} orders were read in {read_ms:.0f} ms, from the store and from the part of the"
            f" log that the killed process had not replicated: {sum(found.values()):,} events, numbered without a gap,"
            " and not one of the acked ones is missing."
        )
        facts = await _live_on(stage, journal, found[1])
    return {
        "acked_before": told,
        "found_after": sum(found.values()),
        "acked_lost": lost,
        "read_ms": round(read_ms, 2),
        **facts,
    }


async def _read(journal: Journal, order: int) -> int:
    """The number of an order's last event; raises if an event is not the one that was appended."""
    last = 0
    async with journal.read(id_of(order)) as reader:
        async for event in reader:
            last += 1
            if event.seq_nr != last or event.payload != payload(order, last):
                raise CordwoodError(f"order {order} differs from the appends, from its event {last} on")
    return last


async def _live_on(stage: Stage, journal: Journal, last: int) -> Facts:
    """The rest of the life of order-1, whose last event has this number."""
    winner, losers = await _race(stage, journal, last)
    last = winner.seq_nrs[-1]

    stage.show(f'await journal.save_snapshot("order-1", seq_nr={last}, payload=state)')
    stage.show(f'await journal.delete("order-1", through={last})')
    await journal.save_snapshot(id_of(1), last, b"the state of order 1")
    await journal.delete(id_of(1), through=last)
    await journal.append(id_of(1), [Event.text("shipped")])
    began = time.perf_counter()
    async with journal.recover(id_of(1)) as recovered:
        after = [event.seq_nr async for event in recovered]
    recover_ms = (time.perf_counter() - began) * 1000
    if recovered.snapshot is None or after != [last + 1]:
        raise CordwoodError(f"order 1 has a snapshot at {last}, and its recovery found {after} after it")
    stage.say(
        f"With a snapshot the {last:,} events before it can go. A recovery took {recover_ms:.1f} ms: the snapshot, and"
        f" event {after[0]} after it. Numbers of deleted events never come back."
    )

    stage.show('await journal.purge("order-1", wait=True)')
    await journal.purge(id_of(1), wait=True)
    anew = await journal.append(id_of(1), [Event.text("another order")])
    stage.say(
        "A purge leaves nothing in the store, the snapshot included. The next append begins a new life, with event"
        f" {anew.seq_nrs[0]}: a late delete that was meant for the old one changes nothing."
    )
    return {
        "rivals": _RIVALS,
        "winners": 1,
        "conflicts": losers,
        "deleted": last,
        "recover_ms": round(recover_ms, 2),
        "first_after_purge": anew.seq_nrs[0],
    }


async def _race(stage: Stage, journal: Journal, last: int) -> tuple[Appended, int]:
    """Several writers decide on the same state: one of them wins."""
    stage.show(f'await journal.append("order-1", [Event.text("paid")], expected={last}, id="command-1")')
    appends = (
        journal.append(id_of(1), [Event.text("paid")], expected=last, id=f"command-{number}")
        for number in range(1, _RIVALS + 1)
    )
    results = await asyncio.gather(*appends, return_exceptions=True)
    won = [result for result in results if isinstance(result, Appended)]
    conflicts = [result for result in results if isinstance(result, Conflict)]
    if len(won) != 1 or len(conflicts) != _RIVALS - 1:
        raise CordwoodError(f"{len(won)} of {_RIVALS} rivals won event {last + 1}, and {len(conflicts)} got a conflict")
    (winner,) = won
    again = await journal.append(id_of(1), [Event.text("paid")], expected=last, id=winner.id)
    if again != winner:
        raise CordwoodError(f"a repetition of {winner.id} returned {again}, not {winner}")
    stage.say(
        f"{_RIVALS} writers at once take order 1 for being at event {last}, and append the next one. The log's order"
        f" decides, without a lock: {winner.id} has won, and the others raise Conflict with its id. The winner may"
        " repeat its call, from any process: it gets the same result, and nothing is appended twice."
    )
    return winner, len(conflicts)
