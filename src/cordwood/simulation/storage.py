"""The contents of the simulated disk: files and folders, each with its durable state and the changes since.

A change is remembered until a sync has decided it. A failed sync leaves its changes undecided for good, as Linux does
by marking the pages clean. A later sync covers only later changes, so a power cut may still lose the undecided ones.
From then on the file remembers all its changes, because the later ones are on top of the undecided ones.
"""

from dataclasses import dataclass, field
from enum import Enum

from cordwood.simulation.power import Chooser


class Fate(Enum):
    PENDING = "pending"
    UNDECIDED = "undecided"
    SYNCED = "synced"


@dataclass(slots=True)
class Change:
    """A write, or with no data a change of the size alone."""

    position: int
    data: bytearray | None
    size: int
    fate: Fate = Fate.PENDING


@dataclass(slots=True)
class NameChange:
    """Names that were removed and a name that was added, atomically."""

    description: str
    gone: str | None
    come: str | None
    node: "Node | None"
    fate: Fate = Fate.PENDING


@dataclass(eq=False, slots=True)
class StoredFile:
    durable: bytearray = field(default_factory=bytearray)
    current: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)

    def write(self, position: int, data: bytes) -> None:
        _put(self.current, position, data)
        self.changes.append(Change(position, bytearray(data), len(self.current)))

    def resize(self, size: int) -> None:
        _resize(self.current, size)
        self.changes.append(Change(size, None, size))

    def sync(self) -> None:
        if not _settle(self.changes, Fate.SYNCED):
            return
        for change in self.changes:
            if change.data is None:
                _resize(self.durable, change.size)
            else:
                _put(self.durable, change.position, change.data)
        self.changes.clear()

    def fail_sync(self) -> None:
        _settle(self.changes, Fate.UNDECIDED)

    def after_cut(self, name: str, chooser: Chooser) -> "StoredFile":
        """The file after a power cut: any mix of the writes, at any of the sizes it had since its last sync.

        The file system's journal keeps sizes in order: the changes of size up to the chosen one have happened, the
        later ones have not. Contents follow no order.
        """
        sizes = [len(self.durable), *(change.size for change in self.changes)]
        synced = [number for number, change in enumerate(self.changes, 1) if change.fate is Fate.SYNCED]
        settled = synced[-1] if synced else 0
        found = settled
        if found < len(self.changes):
            found += chooser.size(name, sizes[settled:])
        image = bytearray(self.durable)
        for number, change in enumerate(self.changes):
            if change.data is not None:
                self._put_what_is_kept(image, name, number, chooser)
            elif number < found and change.size < len(image):
                del image[change.size :]
        size = sizes[found]
        if found > settled and self.changes[found - 1].data is not None and size > sizes[found - 1]:
            size = chooser.torn_size(name, sizes[found - 1], size)
        _resize(image, size)
        return StoredFile(image, bytearray(image))

    def _put_what_is_kept(self, image: bytearray, name: str, number: int, chooser: Chooser) -> None:
        change = self.changes[number]
        assert change.data is not None
        if change.fate is Fate.SYNCED:
            _put(image, change.position, change.data)
            return
        for part in chooser.kept_parts(name, number, change.position, len(change.data)):
            _put(image, change.position + part.start, change.data[part.start : part.stop])

    def flip_bit(self, bit: int) -> None:
        position, mask = bit // 8, 1 << bit % 8
        if not 0 <= position < len(self.current):
            raise ValueError(f"bit {bit} is outside of a file of {len(self.current)} bytes")
        self.current[position] ^= mask
        if position < len(self.durable):
            self.durable[position] ^= mask
        # Unsynced writes are damaged too, or a sync of them would undo the damage.
        for change in self.changes:
            if change.data is not None and 0 <= position - change.position < len(change.data):
                change.data[position - change.position] ^= mask


@dataclass(eq=False, slots=True)
class StoredFolder:
    durable: dict[str, "Node"] = field(default_factory=dict)
    current: dict[str, "Node"] = field(default_factory=dict)
    changes: list[NameChange] = field(default_factory=list)

    def change(self, description: str, *, gone: str | None = None, come: str | None = None) -> None:
        """Remove the name `gone`, and give the file that had it the name `come`."""
        node = self.current[gone] if gone is not None and come is not None else None
        self._record(NameChange(description, gone, come, node))

    def add(self, description: str, name: str, node: "Node") -> None:
        self._record(NameChange(description, None, name, node))

    def _record(self, change: NameChange) -> None:
        _rename(self.current, change)
        self.changes.append(change)

    def sync(self) -> None:
        if not _settle(self.changes, Fate.SYNCED):
            return
        for change in self.changes:
            _rename(self.durable, change)
        self.changes.clear()

    def fail_sync(self) -> None:
        _settle(self.changes, Fate.UNDECIDED)

    def after_cut(self, name: str, chooser: Chooser) -> "StoredFolder":
        """The folder after a power cut: any subset of the unsynced changes of names, with the files they name."""
        names = dict(self.durable)
        for change in self.changes:
            if change.fate is Fate.SYNCED or chooser.keeps_name(change.description):
                _rename(names, change)
        prefix = f"{name}/" if name else ""
        found = {last: names[last].after_cut(prefix + last, chooser) for last in sorted(names)}
        return StoredFolder(found, dict(found))

    def files(self, prefix: str = "") -> dict[str, StoredFile]:
        """All files below, by name."""
        found: dict[str, StoredFile] = {}
        for last, node in sorted(self.current.items()):
            if isinstance(node, StoredFile):
                found[prefix + last] = node
            else:
                found |= node.files(f"{prefix}{last}/")
        return found


Node = StoredFile | StoredFolder


def _settle(changes: list[Change] | list[NameChange], fate: Fate) -> bool:
    """Give the pending changes their fate, and return whether all are synced now."""
    for change in changes:
        if change.fate is Fate.PENDING:
            change.fate = fate
    return all(change.fate is Fate.SYNCED for change in changes)


def _put(contents: bytearray, position: int, data: bytes | bytearray) -> None:
    if not data:
        return
    if position > len(contents):
        _resize(contents, position)
    contents[position : position + len(data)] = data


def _resize(contents: bytearray, size: int) -> None:
    if size < len(contents):
        del contents[size:]
    else:
        contents.extend(bytes(size - len(contents)))


def _rename(names: dict[str, Node], change: NameChange) -> None:
    if change.gone is not None:
        names.pop(change.gone, None)
    if change.come is not None and change.node is not None:
        # No node has two names, even if the rename that removed the first one is lost.
        for name in [name for name, node in names.items() if node is change.node]:
            del names[name]
        names[change.come] = change.node
