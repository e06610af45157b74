"""One declaration says how a value is written, how it is read, and why something else is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pytest

from maia.canonical import read_canonical, write_canonical
from maia.canonical.fields import (
    Part,
    bare,
    choice,
    each,
    either,
    fields,
    flag,
    many,
    octets,
    one,
    record,
    rest,
    run,
    tagged,
    word_of,
)
from maia.errors import BadInput

WRONG = (BadInput, "a field of the order is missing, unknown, repeated or out of order")


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Order:
    size: Size
    who: bytes
    notes: tuple[bytes, ...] = ()
    is_urgent: bool = False
    gift: bytes | None = None
    extras: tuple[bytes, ...] = ()


TEXT = octets(1, 8, (BadInput, "a text has 1 to 8 bytes"))
NOTE = tagged(b"note", Part(lambda text: (text,), lambda items: TEXT.read(items[0])), WRONG)
ORDER = record(
    b"order",
    Order,
    WRONG,
    version_of="order format",
    size=bare(word_of(Size, BadInput, "`{}` is no size")),
    who=one(either(b"*", b"anybody", TEXT)),
    notes=run(each(NOTE, 2, (BadInput, "an order has at most 2 notes, and {} were given")), b"note"),
    is_urgent=flag(b"urgent"),
    gift=one(TEXT, b"for", left_out=None),
    extras=rest(each(TEXT, 3, (BadInput, "at most 3 extras, not {}"))),
)
PLAIN = Order(Size.SMALL, b"ann")
FULL = Order(Size.LARGE, b"anybody", (b"a", b"b"), True, b"bob", (b"x", b"y"))


@pytest.mark.parametrize(
    ("order", "written"),
    [
        (PLAIN, b"(5:order(7:version1:1)5:small(3:who3:ann))"),
        (
            FULL,
            b"(5:order(7:version1:1)5:large(3:who1:*)(4:note1:a)(4:note1:b)(6:urgent)(3:for3:bob)1:x1:y)",
        ),
    ],
)
def test_what_is_written_is_read_back(order, written):
    assert write_canonical(ORDER.write(order)) == written
    assert ORDER.read(read_canonical(written)) == order


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (b"(5:order)", "out of order: `version` was expected"),
        (b"(5:order(7:version1:2)5:small(3:who3:ann))", "version `2` of the order format is unknown"),
        (b"(5:order(7:version1:1)4:huge(3:who3:ann))", "`huge` is no size"),
        (b"(5:order(7:version1:1)5:small)", "`who` was expected"),
        (b"(5:order(7:version1:1)5:small(3:who3:ann3:bob))", "`who` with one value was expected"),
        (b"(5:order(7:version1:1)5:small(3:who0:))", "a text has 1 to 8 bytes"),
        (
            b"(5:order(7:version1:1)5:small(3:who3:ann)(4:note1:a)(4:note1:b)(4:note1:c))",
            "at most 2 notes, and 3 were given",
        ),
        (
            b"(5:order(7:version1:1)5:small(3:who3:ann)(6:urgent1:x))",
            "no `urgent` that means the same as none",
        ),
        (b"(5:order(7:version1:1)5:small(3:who3:ann)1:a1:b1:c1:d)", "at most 3 extras, not 4"),
        (b"(5:order(7:version1:1)5:small(3:who3:ann)(3:for3:bob)(6:urgent))", "a text has 1 to 8 bytes"),
        (b"(6:orders)", "out of order"),
        (b"5:order", "out of order"),
        (b"()", "out of order"),
    ],
)
def test_what_is_wrong_is_named(written, sentence):
    with pytest.raises(BadInput, match=sentence):
        ORDER.read(read_canonical(written))


def test_nothing_follows_the_last_field():
    pair = fields(Order, WRONG, size=bare(word_of(Size, *WRONG)), who=one(TEXT))
    with pytest.raises(BadInput, match="nothing more was expected"):
        pair.read((b"small", (b"who", b"ann"), b"more"))


@dataclass(frozen=True)
class Parcel:
    who: bytes
    notes: tuple[bytes, ...] = ()
    gift: bytes | None = None


PARCEL = choice(
    WRONG,
    {
        Parcel: record(
            b"parcel",
            Parcel,
            WRONG,
            who=one(TEXT),
            notes=many(each(TEXT, 2, WRONG)),
            gift=one(TEXT, left_out=None),
        )
    },
)


@pytest.mark.parametrize(
    "parcel", [Parcel(b"ann"), Parcel(b"(5:notes", (b"(4:gift", b")")), Parcel(b"ann", (b"x",), b"bob")]
)
def test_what_is_cut_at_the_beginnings_of_fields_is_what_is_read(parcel):
    """A guess that fails, as in a text that looks like a field, is left to the reader."""
    data = write_canonical(PARCEL.write(parcel))
    pieces = [
        data[:at] + more + data[at + less :]
        for at in range(len(data))
        for less in (0, 1)
        for more in (b"", b")")
    ]
    for changed in (data, *pieces):
        assert PARCEL.cut is not None
        try:
            found = PARCEL.cut(changed)
        except BadInput:
            continue
        assert found == PARCEL.read(read_canonical(changed))
        assert write_canonical(PARCEL.write(found)) == changed
    assert PARCEL.cut(write_canonical(PARCEL.write(Parcel(b"ann", (b"y",))))) == Parcel(b"ann", (b"y",))
