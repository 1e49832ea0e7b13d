"""The two folds of the Scala library, by the tables of its tests."""

import re

import pytest

from cordwood.journal.action import Action, Append, Delete, Mark, Purge
from cordwood.journal.scala_folds import (
    AppendBatch,
    Batch,
    DeleteBatch,
    HeadAppend,
    HeadDelete,
    HeadEmpty,
    HeadInfo,
    HeadPurge,
    PurgeBatch,
    scala_batches,
    scala_head,
)

# A<offset>:<from>-<to>, D<offset>><to>, P<offset>, M<offset>, ~origin; App@<offset>[<record's offset>:<numbers> …].
BATCHES = """
M0  =>
M0 M1  =>
A0:1  =>  App@0[0:1]
A0:1-2  =>  App@0[0:1-2]
A0:1-2 A1:3-4  =>  App@1[0:1-2 1:3-4]
A0:1 M1  =>  App@0[0:1]
M0 A1:1  =>  App@1[1:1]
A0:1 A1:2  =>  App@1[0:1 1:2]
M0 A1:1 M2 A3:2 M4  =>  App@3[1:1 3:2]
D1>1  =>  Del@1>1
M1 D2>1  =>  Del@2>1
D1>1 M2  =>  Del@1>1
D1>1 A2:2  =>  Del@1>1 ; App@2[2:2]
A1:2 D2>1  =>  App@1[1:2] ; Del@2>1
A1:1-3 D2>1  =>  App@1[1:1-3] ; Del@2>1
A1:1 D2>1 A3:2  =>  App@1[1:1] ; Del@2>1 ; App@3[3:2]
A1:1 D2>1~origin1 A3:2 D4>2~origin2  =>  App@3[3:2] ; Del@4>2~origin2
A1:1 D2>1~origin A3:2 D4>2  =>  App@3[3:2] ; Del@4>2
A1:1 A2:2 D3>1~origin1 D4>2~origin2  =>  App@2[2:2] ; Del@4>2~origin2
A1:1 A2:2 D3>1 D4>2~origin  =>  App@2[2:2] ; Del@4>2~origin
D2>1 D3>2  =>  Del@3>2
D2>2~origin D3>1  =>  Del@2>2~origin
M2 D3>1~origin M4 D5>2 M6  =>  Del@5>2
A0:1 D1>1 A2:2 D3>2 A4:3  =>  App@2[2:2] ; Del@3>2 ; App@4[4:3]
A0:1 A1:2 D2>1 A3:3 D4>3 A5:4  =>  App@3[3:3] ; Del@4>3 ; App@5[5:4]
A0:1 A1:2 M2 D3>1 A4:3 A5:4 M6  =>  App@1[1:2] ; Del@3>1 ; App@5[4:3 5:4]
A0:1 A1:2 A2:3 D3>1~origin A4:4 A5:5 D6>2 A7:6  =>  App@5[2:3 4:4 5:5] ; Del@6>2 ; App@7[7:6]
A0:1-2 A1:3-4 A2:5 D3>1 A4:6 A5:7 D6>3 A7:8  =>  App@5[1:3-4 2:5 4:6 5:7] ; Del@6>3 ; App@7[7:8]
P0  =>  Pur@0
M0 P1  =>  Pur@1
P0 M1  =>  Pur@0
P0~origin M1 P2  =>  Pur@2
P0~origin0 M1 P2~origin  =>  Pur@2~origin
A0:1 P1  =>  Pur@1
P0 A1:1  =>  Pur@0 ; App@1[1:1]
D0>1 P1  =>  Pur@1
P0 D1>1  =>  Pur@0 ; Del@1>1
D0>1 D1>2  =>  Del@1>2
A0:1-2 A1:3-4 A2:5-6 D3>3 D4>5  =>  App@2[2:5-6] ; Del@4>5
A0:1-6 D1>3 D2>6  =>  App@0[0:1-6] ; Del@2>6
A0:1-4 A1:5-6 D2>3 D3>6  =>  App@1[1:5-6] ; Del@3>6
A0:1-4 A1:5-6 D2>3  =>  App@1[0:1-4 1:5-6] ; Del@2>3
D1>10 D2>6  =>  Del@1>10
A1797039:574 A1801629:575 M1801632 D1801642>575  =>  App@1801629[1801629:575] ; Del@1801642>575
"""

HEADS: list[tuple[HeadInfo, str, HeadInfo]] = [
    (HeadEmpty(), "A0:1-2", HeadAppend(0, 2)),
    (HeadEmpty(), "D0>10", HeadDelete(10)),
    (HeadAppend(0, 1), "A1:2-3", HeadAppend(0, 3)),
    (HeadAppend(0, 2, 1), "A1:3-4", HeadAppend(0, 4, 1)),
    (HeadAppend(0, 2), "D1>3", HeadAppend(0, 2, 2)),
    (HeadAppend(0, 2), "D1>1", HeadAppend(0, 2, 1)),
    (HeadAppend(0, 2, 1), "D1>3", HeadAppend(0, 2, 2)),
    (HeadAppend(0, 2, 2), "D1>1", HeadAppend(0, 2, 2)),
    (HeadDelete(1), "A1:1-2", HeadAppend(1, 2)),
    (HeadDelete(10), "A1:1-2", HeadAppend(1, 2)),
    (HeadDelete(10), "A1:2-3", HeadAppend(1, 3, 1)),
    (HeadDelete(1), "D1>2", HeadDelete(2)),
    (HeadDelete(2), "D1>1", HeadDelete(2)),
    (HeadPurge(), "A1:1", HeadAppend(1, 1)),
    (HeadPurge(), "D1>1", HeadDelete(1)),
    *[(head, "P1", HeadPurge()) for head in (HeadEmpty(), HeadDelete(1), HeadAppend(0, 1), HeadPurge())],
    *[(head, "M1", head) for head in (HeadEmpty(), HeadDelete(1), HeadAppend(0, 1, 1), HeadPurge())],
]


def records(text: str) -> list[tuple[int, Action]]:
    return [record(word) for word in text.split()]


def record(word: str) -> tuple[int, Action]:
    found = re.fullmatch(r"([ADMP])(\d+)(?:[:>](\d+))?(?:-(\d+))?(?:~(\w+))?", word)
    assert found is not None, word
    kind, offset, first, last, origin = found.groups()
    actions: dict[str, Action] = {
        "A": Append(int(first or 0), int(last or first or 0), origin=origin),
        "D": Delete(int(first or 0), origin),
        "M": Mark(word),
        "P": Purge(origin),
    }
    return int(offset), actions[kind]


def notation(batch: Batch) -> str:
    origin = "" if isinstance(batch, AppendBatch) or batch.origin is None else f"~{batch.origin}"
    match batch:
        case PurgeBatch():
            return f"Pur@{batch.offset}{origin}"
        case DeleteBatch():
            return f"Del@{batch.offset}>{batch.to}{origin}"
        case AppendBatch():
            parts = [
                f"{offset}:{append.first}" + ("" if append.first == append.last else f"-{append.last}")
                for offset, append in batch.records
            ]
            return f"App@{batch.offset}[{' '.join(parts)}]"


@pytest.mark.parametrize("line", BATCHES.strip().splitlines())
def test_batches_are_those_of_the_scala_library(line: str) -> None:
    given, expected = line.split("=>")
    assert " ; ".join(map(notation, scala_batches(records(given)))) == expected.strip()


@pytest.mark.parametrize(("before", "action", "after"), HEADS)
def test_heads_are_those_of_the_scala_library(before: HeadInfo, action: str, after: HeadInfo) -> None:
    assert scala_head(records(action), before) == after
