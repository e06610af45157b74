"""Has this request been received before?

The edge of a broker asks once per signed request. Inside the window of clock
skew the answer comes from memory, by principal and nonce; outside of it the
time stamp alone refuses. Nothing inside the window is ever forgotten: a full
memory refuses new requests instead. Whatever was forgotten left behind its
time stamp, about which nothing is accepted again, so that a clock that steps
back does not bring old requests back to life. Time stamps that were forgotten
are ranges: a clock that was an hour ahead, with requests of that hour, closes
that moment of the next hour, and not all the time up to it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.credentials import Principal
from maia.errors import Refusal, Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND, Instant

NONCE_BYTES: Final = 16
_MOMENT_BYTES: Final = 8
_RECORD_BYTES: Final = _MOMENT_BYTES + 32 + NONCE_BYTES
_MARK_BYTES: Final = 8
_PLACES: Final = 1024
_RANGES_MAX: Final = 16
_JOINED_WITHIN: Final = 60 * SECOND
"""Requests that were signed closer together than this were forgotten as one range."""
REPLAYS_MAX: Final = 1 << 16
REPLAYS_PER_PRINCIPAL_MAX: Final = 1 << 10
PAGES: Final = 64
"""In how many parts a memory can be written, so that one request rewrites a small one."""

_Moment: TypeAlias = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
_Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Nonce: TypeAlias = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
_Entry: TypeAlias = tuple[_Moment, _Key, _Nonce]


_Range: TypeAlias = tuple[_Moment, _Moment]
Forgotten: TypeAlias = list[tuple[Instant, Instant]]
"""From when to when requests were signed that are forgotten, in order and without touching each other."""


class _KeptRequest(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A memory, or one page of it, as it is stored; `ranges` is not written if there is none."""

    version: Annotated[int, Meta(ge=1, le=1)]
    horizon: _Moment | None
    entries: Annotated[list[_Entry], Meta(max_length=1 << 20)]
    ranges: Annotated[list[_Range], Meta(max_length=_RANGES_MAX)] = []


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_KeptRequest)


def page_of(nonce: bytes) -> int:
    """Return the page on which a nonce is remembered."""
    return nonce[0] % PAGES


class ReplayMemory:
    """The requests received within the window, and the time stamps that are not accepted again.

    Everything up to `horizon` is forgotten at the beginning. A broker that lost its memory begins with the
    present moment, and so accepts nothing that was signed before it started.
    """

    # Hundreds of thousands of requests are remembered for a minute, so there is no object for any of them.
    # INVARIANT: `_of_principal` and `_marks` are about exactly the records in `_by_second`.

    __slots__ = (
        "_by_second",
        "_count",
        "_entries_max",
        "_forgotten",
        "_in_order",
        "_marks",
        "_of_principal",
        "_per_principal_max",
        "_seconds",
    )

    def __init__(
        self,
        *,
        entries_max: int = REPLAYS_MAX,
        per_principal_max: int = REPLAYS_PER_PRINCIPAL_MAX,
        horizon: Instant | None = None,
    ) -> None:
        self._entries_max, self._per_principal_max = entries_max, per_principal_max
        self._forgotten: Forgotten = []
        if horizon is not None:
            self.refuse_up_to(horizon)
        self._seconds: list[int] = []
        """The seconds of which there are records, the oldest first."""
        self._by_second: dict[int, bytearray] = {}
        """Records side by side; those of the second `_in_order`, which is being forgotten, are sorted."""
        self._in_order: int | None = None
        self._marks: dict[int, bytearray] = {}
        """Eight bytes for each record, in one of many places to look for them."""
        self._of_principal: Counter[bytes] = Counter()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def horizon(self) -> Instant | None:
        """Return the newest time stamp that was forgotten, or None."""
        return self._forgotten[-1][1] if self._forgotten else None

    def check_unheard(self, principal: Principal, nonce: bytes, *, signed_at: Instant) -> None:
        """Return if this request is new and can be remembered; raise if not."""
        place, mark = _mark_of(principal.key + nonce)
        if _find(self._marks.get(place, b""), mark) >= 0:
            raise Refusal("REQUEST-REPLAYED", "this request has been made before; sign a new one")
        upto = self._forgotten_with(signed_at)
        if upto is not None:
            raise Refusal("REQUEST-STALE", f"requests signed up to `{upto}` are forgotten; sign a new one")
        if self._of_principal[principal.key] >= self._per_principal_max:
            raise Refusal(
                "REQUEST-TOO-MANY",
                f"more than {self._per_principal_max} requests of one principal within the window",
            )
        if self._count >= self._entries_max:
            raise Unavailable(
                "UNAVAILABLE-REPLAY-MEMORY-FULL",
                f"{self._entries_max} requests within the window are all it can remember",
            )

    def remember(self, principal: Principal, nonce: bytes, *, signed_at: Instant) -> int:
        """Take note of a request that was checked, and return the page that changed."""
        self._add(record_of(principal, nonce, signed_at))
        return page_of(nonce)

    def forget_before(self, oldest: Instant) -> None:
        """Forget the requests signed before `oldest`, which their time stamp refuses from now on."""
        first_kept = _moment_bytes(oldest)
        while self._seconds and self._seconds[0] <= _second_of(first_kept):
            second = self._seconds[0]
            if self._in_order != second:
                self._by_second[second] = bytearray().join(sorted(_records_in(self._by_second[second])))
                self._in_order = second
            records = self._by_second[second]
            after = _place_in(records, first_kept)
            for record in _records_in(records[:after]):
                self._forget(record)
            del records[:after]
            if records:
                return
            del self._by_second[second], self._seconds[0]

    def _forget(self, record: bytes) -> None:
        moment, key, nonce = _entry(record)
        place, mark = _mark_of(key + nonce)
        marks = self._marks[place]
        at = _find(marks, mark)
        marks[at : at + _MARK_BYTES] = marks[-_MARK_BYTES:]
        del marks[-_MARK_BYTES:]
        if not marks:
            del self._marks[place]
        self._count -= 1
        self._of_principal[key] -= 1
        if not self._of_principal[key]:
            del self._of_principal[key]
        self._refuse_between(Instant(moment), Instant(moment))

    def refuse_up_to(self, signed_at: Instant) -> None:
        """Refuse every request signed at this moment or before it, from now on."""
        self._refuse_between(Instant(INSTANT_MIN), signed_at)

    def _forgotten_with(self, signed_at: Instant) -> Instant | None:
        """Return up to when requests are forgotten that were signed about then; None if they are known."""
        at = bisect_right(self._forgotten, (signed_at, Instant(INSTANT_MAX))) - 1
        if at >= 0 and signed_at <= self._forgotten[at][1]:
            return self._forgotten[at][1]
        return None

    def _refuse_between(self, first: Instant, last: Instant) -> None:
        """Refuse every request that was signed in a range, and what lies between it and one close by."""
        ranges = self._forgotten
        if ranges and ranges[-1][0] <= first <= ranges[-1][1] + _JOINED_WITHIN:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], last))
            return
        joined: Forgotten = []
        for one in sorted([*ranges, (first, last)]):
            if joined and one[0] <= joined[-1][1] + _JOINED_WITHIN:
                joined[-1] = (joined[-1][0], max(joined[-1][1], one[1]))
            else:
                joined.append(one)
        while len(joined) > _RANGES_MAX:  # the oldest are the ones that no clock comes back to
            joined[:2] = [(joined[0][0], joined[1][1])]
        self._forgotten = joined

    @property
    def forgotten(self) -> Forgotten:
        """Return from when to when requests were signed that are refused because they are forgotten."""
        return list(self._forgotten)

    def to_bytes(self, page: int | None = None) -> bytes:
        """Return the memory, or one page of it, to be kept across a restart."""
        every = (record for records in self._by_second.values() for record in _records_in(records))
        some = (one for one in every if page is None or page_of(one[-NONCE_BYTES:]) == page)
        return records_to_bytes(some, self._forgotten)

    @classmethod
    def from_parts(
        cls,
        parts: Iterable[bytes],
        *,
        entries_max: int = REPLAYS_MAX,
        per_principal_max: int = REPLAYS_PER_PRINCIPAL_MAX,
    ) -> ReplayMemory:
        """Read back what was kept: whole memories and pages, in any number and order.

        What was kept is remembered even beyond the limits, which then refuse
        new requests until the window has passed.
        """
        memory = cls(entries_max=entries_max, per_principal_max=per_principal_max)
        for part in parts:
            kept = _read(part)
            if kept.horizon is not None:
                memory.refuse_up_to(Instant(kept.horizon))
            for first, last in kept.ranges:
                memory._refuse_between(Instant(first), Instant(last))
            for signed_at, key, nonce in kept.entries:
                memory._add(_moment_bytes(signed_at) + key + nonce)
        return memory

    def _add(self, record: bytes) -> None:
        heard = record[_MOMENT_BYTES:]
        place, mark = _mark_of(heard)
        marks = self._marks.setdefault(place, bytearray())
        if _find(marks, mark) >= 0:
            return
        marks += mark
        self._count += 1
        self._of_principal[heard[:-NONCE_BYTES]] += 1
        second = _second_of(record)
        if second not in self._by_second:
            insort(self._seconds, second)
            self._by_second[second] = bytearray()
        records = self._by_second[second]
        at = _place_in(records, record) if second == self._in_order else len(records)
        records[at:at] = record


def _place_in(records: bytearray, record: bytes) -> int:
    """Return where a record belongs among others that are sorted, or the first that is not below a moment."""
    rows = range(len(records) // _RECORD_BYTES)
    return _RECORD_BYTES * bisect_left(
        rows, record, key=lambda row: bytes(records[row * _RECORD_BYTES : (row + 1) * _RECORD_BYTES])
    )


def _records_in(records: bytearray) -> Iterator[bytes]:
    return (bytes(records[at : at + _RECORD_BYTES]) for at in range(0, len(records), _RECORD_BYTES))


def _mark_of(heard: bytes) -> tuple[int, bytes]:
    """Return by what a request is found again, and where.

    Python's hash has a secret key in each process, so no peer can choose two requests with one mark. That
    two of a million have one by chance, and the later is refused as if it were the same, takes as much luck
    as to guess a number of 44 bits.
    """
    number = hash(heard)
    return number % _PLACES, number.to_bytes(_MARK_BYTES, "big", signed=True)


def _find(marks: bytearray | bytes, mark: bytes) -> int:
    """Return where a mark is; -1 if it is not there."""
    at = marks.find(mark)
    while at >= 0 and at % _MARK_BYTES:
        at = marks.find(mark, at + 1)
    return at


def record_of(principal: Principal, nonce: bytes, signed_at: Instant) -> bytes:
    """Return what is remembered of a request: its moment, its principal and its nonce, in one piece."""
    return _moment_bytes(signed_at) + principal.key + nonce


def records_to_bytes(records: Iterable[bytes], forgotten: Forgotten) -> bytes:
    """Return records, and what was forgotten, as they are kept across a restart."""
    entries = [_entry(record) for record in sorted(records)]
    is_all_before = bool(forgotten) and forgotten[0][0] == INSTANT_MIN
    horizon = +forgotten[0][1] if is_all_before else None
    ranges = [(+first, +last) for first, last in forgotten[is_all_before:]]
    return _ENCODER.encode((1, horizon, entries, ranges) if ranges else (1, horizon, entries))


def _moment_bytes(moment: int) -> bytes:
    # Counted from the first moment there is, so that bytes are in the order of moments.
    return (moment - INSTANT_MIN).to_bytes(_MOMENT_BYTES, "big")


def _second_of(record: bytes) -> int:
    return int.from_bytes(record[:_MOMENT_BYTES], "big") // SECOND


def _entry(record: bytes) -> _Entry:
    moment = int.from_bytes(record[:_MOMENT_BYTES], "big") + INSTANT_MIN
    return moment, record[_MOMENT_BYTES:-NONCE_BYTES], record[-NONCE_BYTES:]


def _read(part: bytes) -> _KeptRequest:
    try:
        return _DECODER.decode(part)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise Unavailable(
            "UNAVAILABLE-REPLAY-MEMORY", f"the kept memory of requests cannot be read: {problem}"
        ) from problem
