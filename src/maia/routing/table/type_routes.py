"""Who wants, and who offers, publications of one type, and what has each neighbour been sent of it?

The routing table keeps one of these per type. It works out what a neighbour
ought to have been sent, compares that with what it was sent, and answers with
the difference:

- interests go to the parent, which is the next hop towards the rendezvous
  node, and to every neighbour with a registered offer (dissertation,
  section 2.3.1: a publication follows its advertisement, and turns off
  wherever it meets an interest);
- a neighbour receives the filters of all other hops that none of these others
  covers;
- an offer goes to the parent while any other hop offers. A neighbour has one
  offer per type; the clients of this broker have as many as there are
  advertisements, and `LOCAL` offers as long as one of them is left.

What is added goes first and what is removed goes last, so that between two
steps a neighbour wants too much and never too little.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from maia.events import AttributeUid, Frame
from maia.predicates import ALWAYS, Predicate
from maia.routing.matching.index import MatchIndex
from maia.routing.table import hops
from maia.routing.table.hops import LOCAL, Hop, InterestUpdate, OfferUpdate, RouteEntry, RouteUpdate, TypeId
from maia.routing.table.interests import (
    CoveringOrder,
    Group,
    Held,
    HopInterests,
    Tally,
    digest_of_meaning,
    is_received_by,
    known_attributes,
    mark_of_offer,
)
from maia.routing.table.neighbours import Links

# ------------------------------------------------------------ which hops want which rows of a frame?
#
# A type's routes keep this current with the filters that are shown, and
# publications ask it. Filters that want everything are no question to the index.


Wanter: TypeAlias = tuple[Hop, int, bytes]
"""A hop, one of its groups, and the class of Views which that is for."""


class Targets:
    """The hops that want something of one type."""

    def __init__(self, *, may_miss_columns: bool) -> None:
        """Begin without hops; of what is sealed, frames may have columns that this broker cannot read."""
        self._index: MatchIndex[Wanter] = MatchIndex()
        self._filters = 0
        """How many filters the index has."""
        self._everything: dict[Wanter, None] = {}
        """What wants everything: there is nothing to ask about an event."""
        self._asking: dict[AttributeUid, Counter[Hop]] | None = {} if may_miss_columns else None
        """How many filters of each hop ask about an attribute; None where no frame misses a column."""
        self._of_class: dict[bytes, Targets] = {}
        """The same for frames that are what a class sees, made for the first such frame of the class."""

    def keep_current(self, group: Group) -> None:
        """Hear that a group is now shown, or hidden; this broker's clients are no target."""
        if group.hop == LOCAL:
            return
        self._keep(group, group.front.entry.predicate if group.is_shown else None)
        if group.view in self._of_class:
            self._of_class[group.view].keep_behind(group)

    def keep_behind(self, group: Group) -> None:
        """Take note of a group among those for frames that are what its class sees."""
        entry = group.front.entry if group.is_shown else None
        self._keep(
            group, None if entry is None else entry.predicate if entry.behind is None else entry.behind
        )

    def _keep(self, group: Group, matched_by: Predicate | None) -> None:
        step, key = 1 if group.is_shown else -1, (group.hop, group.id, group.view)
        if self._asking is not None:
            self._count(group, step, self._asking)
        if matched_by is not None and matched_by == ALWAYS:
            self._everything[key] = None
        elif key in self._everything:
            del self._everything[key]
        else:
            self._filters += step
            if matched_by is not None:
                self._index.add(key, matched_by)
            else:
                self._index.remove(key)

    def of_class(self, view: bytes, groups: Iterable[Group]) -> Targets:
        """Return the hops that want something of what a class sees; `groups` are all that are shown."""
        found = self._of_class.get(view)
        if found is None:
            found = self._of_class[view] = Targets(may_miss_columns=False)
            for group in groups:
                if group.view == view and group.hop != LOCAL:
                    found.keep_behind(group)
        return found

    def asked_about(self) -> frozenset[AttributeUid]:
        """Return the attributes about which a filter asks; none where no frame is sealed."""
        return frozenset(self._asking or ())

    def of_frame(
        self, frame: Frame, *, from_hop: Hop, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, Sequence[int]]:
        """Return the rows that each hop wants, in order, and never the neighbour from which they came.

        `missing` are attributes that the frame has and this broker cannot read.
        """
        every = range(frame.rows)
        by_hop: dict[Hop, list[Sequence[int]]] = {hop: [every] for hop, _, _ in self._everything if every}
        if self._filters:
            asking = self._asking or {}
            for hop in [hop for uid in sorted(missing) if uid in asking for hop in asking[uid]]:
                by_hop[hop] = [every]
            for (hop, _, _), rows in self._index.match_frame(frame).items():
                by_hop.setdefault(hop, []).append(rows)
        by_hop.pop(from_hop, None)
        return {hop: _joined(found, frame.rows) for hop, found in by_hop.items()}

    def by_class(self, frame: Frame, *, from_hop: Hop) -> dict[tuple[Hop, bytes], Sequence[int]]:
        """Return the rows that each class behind each hop wants, but behind the one from which they came."""
        every = range(frame.rows)
        found: dict[tuple[Hop, bytes], list[Sequence[int]]] = {}
        for hop, _, view in self._everything if every else ():
            found[hop, view] = [every]
        if self._filters:
            for (hop, _, view), rows in self._index.match_frame(frame).items():
                found.setdefault((hop, view), []).append(rows)
        return {key: _joined(rows, frame.rows) for key, rows in found.items() if key[0] != from_hop}

    def _count(self, group: Group, step: int, asking: dict[AttributeUid, Counter[Hop]]) -> None:
        for uid in known_attributes(group.filter):
            hops = asking.setdefault(uid, Counter())
            hops[group.hop] += step
            if not hops[group.hop]:
                del hops[group.hop]
            if not hops:
                del asking[uid]


def _joined(found: Sequence[Sequence[int]], rows: int) -> Sequence[int]:
    if len(found) == 1:
        return found[0]
    together: set[int] = set()
    for some in found:
        together.update(some)
        if len(together) == rows:
            break
    return sorted(together)


# ------------------------------------------------------------

Source: TypeAlias = tuple[Hop, Hashable]
"""A hop, and the key of one of its advertisements."""


@dataclass(slots=True)
class Offer:
    """What one hop offers: baggage by the key of the advertisement."""

    advertisements: dict[Hashable, object] = field(default_factory=dict)
    is_stale: bool = False
    set_aside: Hashable = None
    """An advertisement that represents others only if there is no other to do it."""
    size: int = 0
    """About how many bytes it takes to keep what a neighbour offers."""


class SentRoutes:
    """What one neighbour was sent of one type."""

    __slots__ = ("_by_group", "_hop", "_tally", "_type_id", "offer")

    def __init__(self, hop: Hop, type_id: TypeId, tally: Tally) -> None:
        """Begin with nothing sent; `tally` counts all that the neighbour is sent."""
        self._hop, self._type_id, self._tally = hop, type_id, tally
        self._by_group: dict[int, Held] = {}
        self.offer: Source | None = None
        """Whose advertisement went with the offer that it was sent, if any."""

    def entries(self) -> tuple[RouteEntry, ...]:
        """Return the entries that the neighbour was sent."""
        return tuple(map(_as_sent, self._by_group.values()))

    def catch_up(self, groups: Iterable[Group], source: Source | None, baggage: object) -> list[RouteUpdate]:
        """Send what has changed for some groups, and an offer, its withdrawal, or another one for it."""
        ought = [(group.id, group.front if is_received_by(self._hop, group) else None) for group in groups]
        return self._send(ought, source, baggage)

    def withdraw(self) -> list[RouteUpdate]:
        """Take back everything."""
        return self._send([(group_id, None) for group_id in self._by_group], None, None)

    def again(self, baggage: object) -> list[RouteUpdate]:
        """Repeat everything; `baggage` goes with the offer."""
        updates = self._in_steps(self.entries(), ())
        return updates if self.offer is None else [*updates, self.offer_again(baggage)]

    def offer_again(self, baggage: object) -> RouteUpdate:
        """Say again whether there is an offer, and on whose behalf."""
        return OfferUpdate(self._hop, self._type_id, self.offer is not None, baggage)

    def one_again(self, group: Group, held: Held) -> list[RouteUpdate]:
        """Repeat one entry, if it is what the neighbour was sent for its group."""
        return self._in_steps((_as_sent(held),), ()) if self._by_group.get(group.id) is held else []

    def _send(
        self, ought: Iterable[tuple[int, Held | None]], source: Source | None, baggage: object
    ) -> list[RouteUpdate]:
        add: dict[bytes, RouteEntry] = {}
        remove: list[bytes] = []
        for group_id, held in ought:
            known = self._by_group.get(group_id)
            if held is known:
                continue
            if known is not None:
                del self._by_group[group_id]
                self._tally.subtract(known.mark(self._type_id, known.sent_as))
                remove.append(known.sent_as)
            if held is not None:
                self._by_group[group_id] = held
                self._tally.add(held.mark(self._type_id, held.sent_as))
                add[held.sent_as] = _as_sent(held)
        updates = self._in_steps(tuple(add.values()), tuple(one for one in remove if one not in add))
        if source == self.offer:
            return updates
        if self.offer is not None:
            self._tally.subtract(mark_of_offer(self._type_id))
        if source is not None:
            self._tally.add(mark_of_offer(self._type_id))
        self.offer = source
        return [*updates, self.offer_again(baggage)]

    def _in_steps(self, add: Sequence[RouteEntry], remove: Sequence[bytes]) -> list[RouteUpdate]:
        size = hops.ENTRIES_PER_TELL_MAX
        parts: list[tuple[Sequence[RouteEntry], Sequence[bytes]]] = [(add, remove)] if add or remove else []
        if len(add) + len(remove) > size:
            parts = [(add[at : at + size], ()) for at in range(0, len(add), size)]
            parts += [((), remove[at : at + size]) for at in range(0, len(remove), size)]
        return [InterestUpdate(self._hop, self._type_id, tuple(more), tuple(less)) for more, less in parts]


def _as_sent(held: Held) -> RouteEntry:
    return held.entry if held.sent_as == held.entry.id else replace(held.entry, id=held.sent_as)


class TypeRoutes:
    """Interests and offers of all hops for one type."""

    def __init__(
        self, type_id: TypeId, *, parent: Hop | None, targets: Targets, links: Links, numbers: Iterator[int]
    ) -> None:
        """Begin with nothing wanted and nothing offered; `numbers` grow and never come again.

        `targets` are kept current with what comes to be shown to others, or hidden.
        """
        self.type_id, self.parent, self.targets = type_id, parent, targets
        self._links, self._numbers = links, numbers
        self._interests: dict[Hop, HopInterests] = {}
        self._order = CoveringOrder(self._interests, targets.keep_current)
        self.offers: dict[Hop, Offer] = {}
        self._sent: dict[Hop, SentRoutes] = {}
        self.asked: Counter[Hop] = Counter()
        """How many questions about what was published before wait for an answer of a neighbour."""
        self.versions: dict[Hop, int] = {}
        """A number by hop that changes whenever it may want or offer something else than before."""
        self._aliases: dict[bytes, tuple[Hop, Held]] = {}
        """The entries that are passed on under another id than their own, by that id."""

    # ------------------------------------------------------------ what is here

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is wanted, offered or sent, so that the routes can be dropped."""
        return not (self._interests or self.offers or self._sent)

    def hops(self) -> tuple[Hop, ...]:
        """Return the hops that want or offer something, in an order that every process repeats."""
        return tuple(dict.fromkeys((*self._interests, *self.offers)))

    def targets_in_class(self, view: bytes) -> Targets:
        """Return the hops that want something of what a class sees."""
        return self.targets.of_class(view, (one for hop in self._interests.values() for one in hop.shown()))

    def in_class(self, view: bytes) -> Iterator[tuple[Hop, object]]:
        """Yield who wants something of what a class sees, and what travels with it."""
        for hop, wanted in self._interests.items():
            yield from ((hop, group.front.entry.baggage) for group in wanted.shown() if group.view == view)

    def held(self, hop: Hop) -> Mapping[bytes, Held]:
        """Return what a hop wants, by the ids of entries."""
        return self._interests[hop].held if hop in self._interests else {}

    def source_of(self, sent_as: bytes) -> tuple[Hop, RouteEntry] | None:
        """Return the entry that is forwarded under an id, and the hop that sent it."""
        found = self._passed_on_as(sent_as)
        return None if found is None else (found[0], found[1].entry)

    def shown(self, hop: Hop) -> tuple[RouteEntry, ...]:
        """Return what a hop wants, without what another filter of the same hop covers."""
        shown = self._interests[hop].shown() if hop in self._interests else ()
        return tuple(group.front.entry for group in shown)

    def offer(self, hop: Hop) -> object:
        """Return what travels with the oldest advertisement of a hop; None if it has none."""
        return next(iter(self.offers[hop].advertisements.values())) if hop in self.offers else None

    def sent_to(self, hop: Hop) -> tuple[tuple[RouteEntry, ...], bool]:
        """Return the entries that a neighbour was sent, and whether it was sent an offer."""
        sent = self._sent.get(hop)
        return ((), False) if sent is None else (sent.entries(), sent.offer is not None)

    # ------------------------------------------------------------ what is received

    def change(
        self, hop: Hop, *, add: Iterable[RouteEntry], remove: Iterable[bytes], is_stale: bool = False
    ) -> list[RouteUpdate]:
        """Change the entries of one hop, and only of that hop (A67)."""
        self.versions[hop] = next(self._numbers)
        changed = self._remove(hop, remove)
        for entry in add:
            changed |= self._add(hop, entry, is_stale=is_stale)
        return self._settled(hop, changed)

    def understand_anew(
        self, hop: Hop, *, entries: Iterable[RouteEntry], remove: Iterable[bytes]
    ) -> list[RouteUpdate]:
        """Take entries of a hop as they are known now; whether they are stale is as it was."""
        changed = self._remove(hop, remove)
        for entry in entries:
            held = self.held(hop).get(entry.id)
            if held is not None and held.filter_digest != digest_of_meaning(entry):
                changed |= self._remove(hop, (entry.id,)) | self._add(hop, entry, is_stale=held.is_stale)
        return self._settled(hop, changed) if changed else []

    def add_offer(
        self,
        hop: Hop,
        advertisement: Hashable,
        baggage: object,
        *,
        is_stale: bool = False,
        size: int = 0,
    ) -> list[RouteUpdate]:
        """Register an offer of a hop; what the hop says itself counts more than what others say of it."""
        self.versions[hop] = next(self._numbers)
        offer, link = self.offers.get(hop), self._links[hop]
        if offer is not None and is_stale:
            return []
        if offer is None:
            offer = self.offers[hop] = Offer(is_stale=is_stale)
            link.add(mark_of_offer(self.type_id), is_stale=is_stale, size=0)
        elif offer.is_stale:
            offer.is_stale = False
            link.fresh.add(mark_of_offer(self.type_id))
        kept = offer.advertisements if hop == LOCAL else {}  # a neighbour has one offer
        offer.advertisements = {**kept, advertisement: baggage}
        link.bytes += size - offer.size
        offer.size = size
        return self.bring_up_to_date()

    def remove_offer(self, hop: Hop, advertisement: Hashable) -> list[RouteUpdate]:
        """Withdraw an advertisement of a hop, or the one that a neighbour has; it need not be there."""
        self.versions[hop] = next(self._numbers)
        if hop == LOCAL and hop in self.offers:
            self.offers[hop].advertisements.pop(advertisement, None)
        if hop in self.offers and (hop != LOCAL or not self.offers[hop].advertisements):
            self._withdraw_offer(hop)
        return self.bring_up_to_date()

    def set_offer_aside(self, advertisement: Hashable) -> tuple[Hop | None, list[RouteUpdate]]:
        """Replace an advertisement that a neighbour doubts, if there is another; return whose it was."""
        for hop, offer in self.offers.items():
            if advertisement in offer.advertisements and offer.set_aside != advertisement:
                offer.set_aside = advertisement
                return hop, self.bring_up_to_date()
        return None, []

    def forget_received(self, hop: Hop) -> list[RouteUpdate]:
        """Forget all that a hop sent; what it was sent stays."""
        self.versions.pop(hop, None)
        touched: set[Group] = set()
        if hop in self._interests:
            touched = self._order.forget(hop)
            for held in self._interests.pop(hop).held.values():
                self._release(hop, held)
        self._withdraw_offer(hop)
        return self._updates(touched)

    def forget_sent(self, hop: Hop) -> None:
        """Forget what a neighbour was sent, without a message: it is gone."""
        self._sent.pop(hop, None)
        del self.asked[hop]

    def ask(self, hop: Hop, step: int) -> list[RouteUpdate]:
        """Send interests to a neighbour for the time of a question, whether it offers anything now or not."""
        self.asked[hop] += step
        if self.asked[hop] <= 0:
            del self.asked[hop]
        return self.bring_up_to_date()

    def set_stale(self, hop: Hop, is_stale: bool) -> None:
        """Doubt all that a hop sent until it is sent again, or take all of it as current."""
        for held in self.held(hop).values():
            held.is_stale = is_stale
        if hop in self.offers:
            self.offers[hop].is_stale = is_stale

    def drop_stale(self, hop: Hop) -> list[RouteUpdate]:
        """Forget what a hop has not sent again."""
        if hop in self.offers and self.offers[hop].is_stale:
            self._withdraw_offer(hop)
        stale = [held.entry.id for held in self.held(hop).values() if held.is_stale]
        return self.change(hop, add=(), remove=stale)

    # ------------------------------------------------------------ what is sent

    def bring_up_to_date(self) -> list[RouteUpdate]:
        """Tell every neighbour what it ought to know; one for which nothing has changed costs a look."""
        return self._updates(())

    def send_again(self, hop: Hop) -> list[RouteUpdate]:
        """Repeat all that a neighbour was sent."""
        sent = self._sent.get(hop)
        return [] if sent is None else sent.again(self._baggage(sent.offer))

    def send_one_again(self, hop: Hop, entry_id: bytes) -> list[RouteUpdate]:
        """Repeat one entry of a hop to the neighbours that were sent it: its baggage is another one."""
        held = self.held(hop).get(entry_id)
        if held is None:
            return []
        group = self._interests[hop].group_of(held)
        return [update for sent in self._sent.values() for update in sent.one_again(group, held)]

    def send_offer_again(self, source: Source) -> list[RouteUpdate]:
        """Repeat an offer to the neighbours that were sent it on behalf of this advertisement."""
        baggage = self._baggage(source)
        return [sent.offer_again(baggage) for sent in self._sent.values() if sent.offer == source]

    def _updates(self, touched: Iterable[Group]) -> list[RouteUpdate]:
        # Interests go to the parent, to those that offer, and to those that are asked something.
        audience = dict.fromkeys(
            hop for hop in (self.parent, *self.offers, *self.asked) if hop in self._links
        )
        if not self._interests and not self.offers:
            audience = {}
        updates: list[RouteUpdate] = []
        for hop in [hop for hop in self._sent if hop not in audience]:
            updates += self._sent.pop(hop).withdraw()
        for hop in audience:
            sent, groups = self._sent.get(hop), touched
            if sent is None:
                sent = self._sent[hop] = SentRoutes(hop, self.type_id, self._links[hop].sent)
                groups = [group for one in self._interests.values() for group in one.shown()]
            source = self._source_besides(hop, current=sent.offer) if hop == self.parent else None
            ordered = sorted(groups, key=lambda group: group.id)
            updates += sent.catch_up(ordered, source, self._baggage(source))
        return updates

    def _source_besides(self, hop: Hop, *, current: Source | None) -> Source | None:
        """Return an advertisement of another hop: the current one while it is there, else the oldest hop's.

        One that was set aside comes last.
        """
        if current is not None and current[0] in self.offers:
            offer = self.offers[current[0]]
            if current[1] in offer.advertisements and offer.set_aside != current[1]:
                return current
        sources = [
            (one, next(iter(offer.advertisements))) for one, offer in self.offers.items() if one != hop
        ]
        usual = (source for source in sources if self.offers[source[0]].set_aside != source[1])
        return next(usual, sources[0] if sources else None)

    def _baggage(self, source: Source | None) -> object:
        return None if source is None else self.offers[source[0]].advertisements[source[1]]

    # ------------------------------------------------------------ one entry

    def _add(self, hop: Hop, entry: RouteEntry, *, is_stale: bool) -> set[Group]:
        known, link = self.held(hop).get(entry.id), self._links[hop]
        if known is not None and is_stale:
            return set()  # what the neighbour says itself counts more than what others say of it
        held = Held(entry, digest_of_meaning(entry), entry.id, is_stale)
        mark = held.mark(self.type_id, entry.id)
        if (
            known is not None
            and known.filter_digest == held.filter_digest
            and known.entry.digest == entry.digest
        ):
            # It is sent again, perhaps with fresher baggage.
            link.bytes += entry.size - known.entry.size
            known.entry = entry
            if known.is_stale:
                known.is_stale = False
                link.fresh.add(mark)
            return set()
        changed = self._remove(hop, (entry.id,))
        held.sent_as = self._free_id(entry.id)
        if held.sent_as != entry.id:
            self._aliases[held.sent_as] = (hop, held)
        link.add(mark, is_stale=is_stale, size=entry.size)
        if hop not in self._interests:
            self._interests[hop] = HopInterests(hop)
        return changed | self._interests[hop].add(held, group_id=next(self._numbers))

    def _remove(self, hop: Hop, entry_ids: Iterable[bytes]) -> set[Group]:
        """Remove those entries of a hop that are here, at one moment; return the groups that may change."""
        held = self.held(hop)
        here = dict.fromkeys(one for one in entry_ids if one in held)
        for one in here:
            self._release(hop, held[one])
        return self._interests[hop].remove(here) if here else set()

    def _settled(self, hop: Hop, changed: set[Group]) -> list[RouteUpdate]:
        touched = self._order.settle(hop, changed) if changed else changed
        if hop in self._interests and not self._interests[hop].held:
            del self._interests[hop]
        return self._updates(touched)

    def _release(self, hop: Hop, held: Held) -> None:
        self._aliases.pop(held.sent_as, None)
        mark = held.mark(self.type_id, held.entry.id)
        self._links[hop].subtract(mark, is_stale=held.is_stale, size=held.entry.size)

    def _free_id(self, entry_id: bytes) -> bytes:
        """Return an id under which an entry can be passed on: no hop may displace another's entry (A67)."""
        free, tried = entry_id, 0
        while self._passed_on_as(free) is not None:
            tried += 1
            free = hashlib.sha256(b"maia/1/entry-alias\x00%d\x00" % tried + entry_id).digest()[:16]
        return free

    def _passed_on_as(self, sent_as: bytes) -> tuple[Hop, Held] | None:
        if sent_as in self._aliases:
            return self._aliases[sent_as]
        for hop, interests in self._interests.items():
            held = interests.held.get(sent_as)
            if held is not None and held.sent_as == sent_as:
                return hop, held
        return None

    def _withdraw_offer(self, hop: Hop) -> None:
        offer = self.offers.pop(hop, None)
        if offer is not None:
            mark = mark_of_offer(self.type_id)
            self._links[hop].subtract(mark, is_stale=offer.is_stale, size=offer.size)
