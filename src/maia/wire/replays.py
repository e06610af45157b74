"""Has this request been received before?

The edge of a broker asks once per signed request. Inside the window of clock
skew the answer comes from memory, by principal and nonce; outside of it the
time stamp alone refuses. Nothing inside the window is ever forgotten: a full
memory refuses new requests instead. Whatever was forgotten left behind its
time stamp, below which nothing is accepted again, so that a clock that steps
back does not bring old requests back to life.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.credentials import Principal
from maia.errors import Refusal, Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant

__all__ = [
    "NONCE_BYTES",
    "PAGES",
    "REPLAYS_MAX",
    "REPLAYS_PER_PRINCIPAL_MAX",
    "BadReplayMemory",
    "ReplayMemory",
    "ReplayMemoryFull",
    "RequestReplayed",
    "RequestStale",
    "TooManyRequests",
    "page_of",
    "record_of",
    "records_to_bytes",
]

NONCE_BYTES: Final = 16
_MOMENT_BYTES: Final = 8
REPLAYS_MAX: Final = 1 << 16
REPLAYS_PER_PRINCIPAL_MAX: Final = 1 << 10
PAGES: Final = 64
"""In how many parts a memory can be written, so that one request rewrites a small one."""

_Moment: TypeAlias = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
_Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Nonce: TypeAlias = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
_Entry: TypeAlias = tuple[_Moment, _Key, _Nonce]


class RequestReplayed(Refusal):
    """A request with this principal and nonce has been received before."""

    code = "REQUEST-REPLAYED"


class RequestStale(Refusal):
    """A request is not newer than requests that were forgotten already."""

    code = "REQUEST-STALE"


class TooManyRequests(Refusal):
    """One principal has made more requests within the window than it may."""

    code = "REQUEST-TOO-MANY"


class ReplayMemoryFull(Unavailable):
    """The broker receives more requests than it can remember for the window of clock skew."""

    code = "UNAVAILABLE-REPLAY-MEMORY-FULL"


class BadReplayMemory(Unavailable):
    """What was kept of a replay memory cannot be read back."""

    code = "UNAVAILABLE-REPLAY-MEMORY"


class _Kept(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A memory, or one page of it, as it is stored."""

    version: Annotated[int, Meta(ge=1, le=1)]
    horizon: _Moment | None
    entries: Annotated[list[_Entry], Meta(max_length=1 << 20)]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Kept)


def page_of(nonce: bytes) -> int:
    """Return the page on which a nonce is remembered."""
    return nonce[0] % PAGES


class ReplayMemory:
    """The requests received within the window, and the time stamp below which nothing is accepted.

    `horizon` begins as given. A broker that lost its memory begins with the
    present moment, and so accepts nothing that was signed before it started.
    """

    __slots__ = ("_by_age", "_entries_max", "_heard", "_horizon", "_of_principal", "_per_principal_max")

    def __init__(
        self,
        *,
        entries_max: int = REPLAYS_MAX,
        per_principal_max: int = REPLAYS_PER_PRINCIPAL_MAX,
        horizon: Instant | None = None,
    ) -> None:
        self._entries_max, self._per_principal_max = entries_max, per_principal_max
        self._horizon = horizon
        # A heap of records, the oldest first, and the part of each behind its moment.
        self._by_age: list[bytes] = []
        self._heard: set[bytes] = set()
        self._of_principal: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._heard)

    @property
    def horizon(self) -> Instant | None:
        """Return the time stamp up to which every request is refused, or None."""
        return self._horizon

    def check_unheard(self, principal: Principal, nonce: bytes, *, signed_at: Instant) -> None:
        """Return if this request is new and can be remembered; raise if not."""
        if principal.key + nonce in self._heard:
            raise RequestReplayed("this request has been made before; sign a new one")
        if self._horizon is not None and signed_at <= self._horizon:
            raise RequestStale(f"requests signed up to `{self._horizon}` are forgotten; sign a new one")
        if self._of_principal[principal.key] >= self._per_principal_max:
            raise TooManyRequests(
                f"more than {self._per_principal_max} requests of one principal within the window"
            )
        if len(self._heard) >= self._entries_max:
            raise ReplayMemoryFull(f"{self._entries_max} requests within the window are all it can remember")

    def remember(self, principal: Principal, nonce: bytes, *, signed_at: Instant) -> int:
        """Take note of a request that was checked, and return the page that changed."""
        self._add(record_of(principal, nonce, signed_at))
        return page_of(nonce)

    def forget_before(self, oldest: Instant) -> None:
        """Forget the requests signed before `oldest`, which their time stamp refuses from now on."""
        first_kept = _moment_bytes(oldest)
        while self._by_age and self._by_age[0] < first_kept:
            record = heappop(self._by_age)
            signed_at, key, _ = _entry(record)
            self._heard.discard(record[_MOMENT_BYTES:])
            self._of_principal[key] -= 1
            if not self._of_principal[key]:
                del self._of_principal[key]
            self.refuse_up_to(Instant(signed_at))

    def refuse_up_to(self, signed_at: Instant) -> None:
        """Refuse every request signed at this moment or before it; the horizon never falls."""
        if self._horizon is None or signed_at > self._horizon:
            self._horizon = signed_at

    def to_bytes(self, page: int | None = None) -> bytes:
        """Return the memory, or one page of it, to be kept across a restart."""
        some = (one for one in self._by_age if page is None or page_of(one[-NONCE_BYTES:]) == page)
        return records_to_bytes(some, self._horizon)

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
            for signed_at, key, nonce in kept.entries:
                memory._add(_moment_bytes(signed_at) + key + nonce)
        return memory

    def _add(self, record: bytes) -> None:
        heard = record[_MOMENT_BYTES:]
        if heard in self._heard:
            return
        self._heard.add(heard)
        self._of_principal[heard[:-NONCE_BYTES]] += 1
        heappush(self._by_age, record)


def record_of(principal: Principal, nonce: bytes, signed_at: Instant) -> bytes:
    """Return what is remembered of a request: its moment, its principal and its nonce, in one piece."""
    return _moment_bytes(signed_at) + principal.key + nonce


def records_to_bytes(records: Iterable[bytes], horizon: Instant | None) -> bytes:
    """Return records and a horizon as they are kept across a restart."""
    entries = [_entry(record) for record in sorted(records)]
    return _ENCODER.encode(_Kept(1, None if horizon is None else +horizon, entries))


def _moment_bytes(moment: int) -> bytes:
    # Counted from the first moment there is, so that bytes are in the order of moments.
    return (moment - INSTANT_MIN).to_bytes(_MOMENT_BYTES, "big")


def _entry(record: bytes) -> _Entry:
    moment = int.from_bytes(record[:_MOMENT_BYTES], "big") + INSTANT_MIN
    return moment, record[_MOMENT_BYTES:-NONCE_BYTES], record[-NONCE_BYTES:]


def _read(part: bytes) -> _Kept:
    try:
        return _DECODER.decode(part)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadReplayMemory(f"the kept memory of requests cannot be read: {problem}") from problem
