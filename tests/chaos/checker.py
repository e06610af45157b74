"""Was everything that was acknowledged delivered once and in order, or reported missing by its number?

A history is what the participants wrote down: which numbers of a publisher were acknowledged, and when; what
each reader was handed, from which position; what it was told that it missed; when its right ended. The
checker reads nothing else, and knows nothing of brokers. Moments are seconds of one clock of the machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

END_BOUND_S = 2.0
"""How long an event may still come when the right to it has ended, beside what the revocation itself says."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker has answered for these numbers of one publisher."""

    publisher: str
    first: int
    last: int
    at: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """A reader was handed these numbers, in this order, from one frame."""

    publisher: str
    first: int
    last: int
    at: float
    position: str | None = None
    """Where in the log of its broker the frame is; a live subscription has no positions."""
    is_late: bool = False
    stream: str = ""
    """Which stream of its publisher: one that left and came back has another. Order is that of a stream."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A reader was told that something is missing: these numbers of a publisher, or nobody knows which."""

    at: float
    publisher: str | None = None
    first: int = 0
    last: int = -1
    code: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """What one subscription was to have, and what came of it."""

    name: str
    wants: frozenset[str]
    """The publishers whose events it has a right to and asks for."""
    is_durable: bool = True
    delivered: Sequence[Delivered] = ()
    reported: Sequence[Reported] = ()
    waits: bool = False
    """Whether it is told at the end that nothing can arrive at this moment, and why."""
    put_back_at: Sequence[float] = ()
    """When the log of its broker was lost, or replaced by an older one: what it had may come again then."""
    right_ended_at: float | None = None
    """When its right ended, and the time was over until which a cut-off broker may not know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be."""

    kind: str
    """Missing: `silent`, `unnumbered`, or `held up`, where the reader is told that nothing can arrive now.

    Or what should not have come, or not so: `doubled`, `disorder`, `after the end`, `invented`.
    """
    reader: str
    publisher: str
    first: int
    last: int
    at: float
    """When it was acknowledged, if it is missing; otherwise when it was delivered."""

    def __str__(self) -> str:
        """Return one line for people."""
        numbers = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.kind}: {numbers} of {self.publisher} at {self.reader} ({self.at:.1f} s)"


@dataclass(slots=True)
class Verdict:
    """What a history shows. `is_good` if nothing is silent, doubled, out of order, too late or invented."""

    acknowledged: int = 0
    expected: int = 0
    """Acknowledged events, once for each durable reader that was to have them."""
    delivered: int = 0
    late: int = 0
    """Delivered behind later ones of their publisher, and marked so."""
    repeated: int = 0
    """Delivered again: from the same position, because their acknowledgement had not arrived; or from another
    log, where the one that knew of it was lost."""
    reported: int = 0
    """Not delivered, and reported by number."""
    findings: list[Finding] = field(default_factory=list)

    def count(self, kind: str) -> int:
        """Return how many events the findings of one kind are about."""
        return sum(one.last - one.first + 1 for one in self.findings if one.kind == kind)

    @property
    def lost(self) -> int:
        """Return how many were not delivered to a reader that was to have them, told or not."""
        return self.expected - self.delivered

    @property
    def is_good(self) -> bool:
        """Return whether every promise was kept."""
        return not self.findings


def check(acknowledged: Iterable[Acknowledged], readers: Iterable[Reader], *, sent: Iterable[str]) -> Verdict:
    """Compare what was acknowledged with what each reader was handed and told.

    Readers have to have the acknowledged numbers; others that they are handed must be of a publisher in
    `sent`, and are else nobody's: an event whose answer was lost may arrive.
    """
    by_publisher, known = defaultdict[str, list[Acknowledged]](list), frozenset(sent)
    for one in acknowledged:
        by_publisher[one.publisher].append(one)
    verdict = Verdict(
        acknowledged=sum(one.last - one.first + 1 for ours in by_publisher.values() for one in ours)
    )
    for reader in readers:
        handed = _handed(reader, known, verdict)
        if not reader.is_durable or reader.right_ended_at is not None:
            continue
        for publisher in sorted(reader.wants):
            _compare(reader, by_publisher[publisher], handed[publisher], verdict)
    return verdict


def _handed(reader: Reader, known: frozenset[str], verdict: Verdict) -> dict[str, set[int]]:
    """Return what the reader was handed of each publisher; what must not come, or not so, is a finding."""
    handed: dict[str, set[int]] = defaultdict(set)
    newest: dict[tuple[str, str], int] = defaultdict(lambda: -1)
    places: dict[tuple[str, int], tuple[str | None, float]] = {}
    for one in reader.delivered:
        if one.publisher not in reader.wants or one.publisher not in known:
            verdict.findings.append(_about(reader, "invented", one.publisher, one.first, one.last, one.at))
            continue
        if reader.right_ended_at is not None and one.at > reader.right_ended_at + END_BOUND_S:
            verdict.findings.append(
                _about(reader, "after the end", one.publisher, one.first, one.last, one.at)
            )
        ours = handed[one.publisher]
        for number in range(one.first, one.last + 1):
            place, since = places.setdefault((one.publisher, number), (one.position, one.at))
            if number in ours:
                is_same = one.position is not None and place == one.position
                if is_same or any(since <= moment <= one.at for moment in reader.put_back_at):
                    verdict.repeated += 1
                else:
                    verdict.findings.append(_about(reader, "doubled", one.publisher, number, number, one.at))
                continue
            ours.add(number)
            if number > newest[one.publisher, one.stream]:
                newest[one.publisher, one.stream] = number
            elif one.is_late:
                verdict.late += 1
            else:
                verdict.findings.append(_about(reader, "disorder", one.publisher, number, number, one.at))
    return handed


def _compare(reader: Reader, due: Sequence[Acknowledged], handed: set[int], verdict: Verdict) -> None:
    """Find what was due and not handed out, and whether the reader was told so."""
    named: set[int] = set()
    for told in reader.reported:
        if due and told.publisher == due[0].publisher:
            named.update(range(told.first, told.last + 1))
    for one in due:
        told_at_all = any(told.publisher is None and told.at >= one.at for told in reader.reported)
        kind = "unnumbered" if told_at_all else "held up" if reader.waits else "silent"
        missing = []
        for number in range(one.first, one.last + 1):
            verdict.expected += 1
            if number in handed:
                verdict.delivered += 1
            elif number in named:
                verdict.reported += 1
            else:
                missing.append(number)
        for first, last in runs(missing):
            verdict.findings.append(_about(reader, kind, one.publisher, first, last, one.at))


def _about(reader: Reader, kind: str, publisher: str, first: int, last: int, at: float) -> Finding:
    return Finding(kind, reader.name, publisher, first, last, at)


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as runs without a hole."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings of one kind, reader and publisher whose numbers follow each other as one."""
    found: list[Finding] = []
    for one in findings:
        last = found[-1] if found else None
        if last and (last.kind, last.reader, last.publisher, last.last + 1) == (
            one.kind, one.reader, one.publisher, one.first,
        ):  # fmt: skip
            found[-1] = Finding(one.kind, one.reader, one.publisher, last.first, one.last, last.at)
        else:
            found.append(one)
    return found


def recovered_after(
    healed_at: float, acknowledged: Sequence[Acknowledged], readers: Sequence[Reader]
) -> float | None:
    """Return how long after a fault every durable reader had something that was published behind it.

    None if one of them never had, though something was acknowledged.
    """
    waits = [0.0]
    for reader in readers:
        if not reader.is_durable or reader.right_ended_at is not None:
            continue
        for publisher in reader.wants:
            behind = [one.last for one in acknowledged if one.publisher == publisher and one.at > healed_at]
            if not behind:
                continue
            first = min(behind)
            arrived = [
                one.at for one in reader.delivered
                if one.publisher == publisher and one.last >= first and one.at > healed_at
            ]  # fmt: skip
            if not arrived:
                return None
            waits.append(min(arrived) - healed_at)
    return max(waits)
