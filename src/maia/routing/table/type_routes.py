"""Who wants, and who offers, publications of one type, and what has each neighbour been sent of it?

The routing book keeps one of these per type. It works out what a neighbour
ought to have been sent, compares that with what it was sent, and answers with
the difference:

- interests go to the parent, which is the next hop towards the rendezvous
  node, and to every neighbour with a registered offer (dissertation,
  section 2.3.1: a publication follows its advertisement, and turns off
  wherever it meets an interest);
- a neighbour receives the filters of all other hops that none of these others
  covers;
- an offer goes to the parent while any other hop offers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeAlias, cast

from maia.events import AttributeUid, Event, Frame
from maia.predicates import ALWAYS
from maia.routing.matching.index import Matcher
from maia.routing.table.hops import LOCAL, Hop, RouteEntry, RouteUpdate, TypeId
from maia.routing.table.interests import (
    CoveringOrder,
    Group,
    Held,
    HopInterests,
    digest_of_meaning,
    digest_on_the_link,
    known_attributes,
    mark_of_interest,
    mark_of_offer,
)
from maia.routing.table.neighbours import NeighbourLink
from maia.routing.table.sent_routes import Offers, SentRoutes

# Which hops want an event, or which rows of a frame?


class Targets:
    """The hops that want something of one type."""

    __slots__ = ("_asked", "_asking", "_everything", "_filters", "_less", "_matcher", "_with_local")

    def __init__(self, matcher: Matcher, *, with_local: bool, may_miss_columns: bool = False) -> None:
        """Begin without hops; `with_local` says whether the broker's own clients are one of the hops."""
        self._matcher = matcher
        self._filters = 0
        """How many filters the matcher has."""
        self._everything: dict[tuple[Hop, int], None] = {}
        """What wants everything: there is nothing to ask about an event."""
        self._with_local = with_local
        self._asking: dict[AttributeUid, Counter[Hop]] | None = {} if may_miss_columns else None
        """How many filters of each hop ask about an attribute; None where no frame misses a column."""
        self._asked: frozenset[AttributeUid] | None = None
        self._less = 0

    def keep_current(self, group: Group) -> None:
        """Hear that a group is now shown, or hidden."""
        if group.hop == LOCAL and not self._with_local:
            return
        if self._asking is not None:
            self._count(group, 1 if group.is_shown else -1, self._asking)
        key = group.hop, group.born
        if group.is_shown and group.front.entry.predicate == ALWAYS:
            self._everything[key] = None
        elif group.is_shown:
            self._matcher.add(key, group.front.entry.predicate)
            self._filters += 1
        elif key in self._everything:
            del self._everything[key]
        else:
            self._matcher.remove(key)
            self._filters -= 1

    @property
    def is_any(self) -> bool:
        """Say whether there is a hop that wants something."""
        return bool(self._filters or self._everything)

    def asked_about(self) -> frozenset[AttributeUid]:
        """Return the attributes about which a filter of a neighbour asks; none where no frame is sealed."""
        if self._asked is None:
            asking = self._asking or {}
            self._asked = frozenset(uid for uid, hops in asking.items() if any(hop != LOCAL for hop in hops))
        return self._asked

    def asks_for_less(self) -> bool:
        """Return whether a neighbour wants less than everything, also where its filter is sealed."""
        return self._less > 0

    def of_event(self, event: Event, *, from_hop: Hop) -> Set[Hop]:
        """Return the hops that want an event, in the order of `of_frame`, and never where it came from."""
        found = {hop: None for hop, _ in self._everything}
        if self._filters:
            found |= {_hop_of(match): None for match in self._matcher.match(event)}
        if from_hop != LOCAL:
            found.pop(from_hop, None)
        return found.keys()

    def of_frame(
        self, frame: Frame, *, from_hop: Hop, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, list[int]]:
        """Return the rows that each hop wants, in order, and never the neighbour from which they came.

        `missing` are attributes that the frame has and this broker cannot read.
        """
        everything = self._everything if frame.rows else ()
        if not self._filters:
            return {hop: list(range(frame.rows)) for hop, _ in everything if hop != from_hop or hop == LOCAL}
        by_hop: dict[Hop, list[Sequence[int]]] = {hop: [range(frame.rows)] for hop, _ in everything}
        for hop in self._asking_about(missing):
            by_hop[hop] = [range(frame.rows)]
        for match, rows in self._matcher.match_frame(frame).items():
            by_hop.setdefault(_hop_of(match), []).append(rows)
        if from_hop != LOCAL:
            by_hop.pop(from_hop, None)
        return {hop: _joined(found, frame.rows) for hop, found in by_hop.items()}

    def _asking_about(self, missing: Collection[AttributeUid]) -> Iterable[Hop]:
        asking = self._asking or {}
        return dict.fromkeys(hop for uid in sorted(missing) if uid in asking for hop in asking[uid])

    def _count(self, group: Group, step: int, asking: dict[AttributeUid, Counter[Hop]]) -> None:
        self._asked = None
        if group.hop != LOCAL and group.predicate != ALWAYS:
            self._less += step
        for uid in known_attributes(group.predicate):
            hops = asking.setdefault(uid, Counter())
            hops[group.hop] += step
            if not hops[group.hop]:
                del hops[group.hop]
            if not hops:
                del asking[uid]


def _hop_of(match: Hashable) -> Hop:
    # The index hands back the ids that `keep_current` gave it, and knows them as hashable alone.
    return cast("tuple[Hop, int]", match)[0]


def _joined(found: Sequence[Sequence[int]], rows: int) -> list[int]:
    if len(found) == 1:
        return list(found[0])
    together: set[int] = set()
    for some in found:
        together.update(some)
        if len(together) == rows:
            break
    return sorted(together)


Links: TypeAlias = Mapping[Hop, NeighbourLink]
"""The neighbours whose links are up."""


class TypeRoutes:
    """Interests and offers of all hops for one type."""

    __slots__ = (
        "_aliases",
        "_crowd",
        "_hops",
        "_numbers",
        "_offers",
        "_sent",
        "_versions",
        "parent",
        "type_id",
    )

    def __init__(
        self, type_id: TypeId, *, parent: Hop | None, targets: Targets, numbers: Iterator[int]
    ) -> None:
        """Begin with nothing wanted and nothing offered; `numbers` grow and never come again."""
        self.type_id = type_id
        self._numbers = numbers
        self._versions: dict[Hop, int] = {}
        self.parent = parent
        self._hops: dict[Hop, HopInterests] = {}
        self._crowd = CoveringOrder(self._hops, targets.keep_current)
        self._offers = Offers()
        self._sent: dict[Hop, SentRoutes] = {}
        self._aliases: dict[bytes, tuple[Hop, Held]] = {}
        """The entries that are passed on under another id than their own, by that id."""

    # ------------------------------------------------------------ what is here

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is wanted, offered or sent, so that the routes can be dropped."""
        return not self._hops and not len(self._offers) and not self._sent

    def hops(self) -> tuple[Hop, ...]:
        """Return the hops that want or offer something, in an order that every process repeats."""
        return tuple(dict.fromkeys((*self._hops, *self._offers)))

    def entries_from(self, hop: Hop) -> tuple[RouteEntry, ...]:
        """Return what a hop wants."""
        return tuple(held.entry for held in self._held_from(hop))

    def entry_from(self, hop: Hop, entry_id: bytes) -> RouteEntry | None:
        """Return one entry of a hop, if it is there."""
        held = self._hops[hop].find(entry_id) if hop in self._hops else None
        return None if held is None else held.entry

    def source_of(self, sent_as: bytes) -> tuple[Hop, RouteEntry] | None:
        """Return the entry that is forwarded under an id, and the hop that sent it."""
        found = self._passed_on_as(sent_as)
        return None if found is None else (found[0], found[1].entry)

    def shown_from(self, hop: Hop) -> tuple[RouteEntry, ...]:
        """Return what a hop wants, without what another filter of the same hop covers."""
        shown = self._hops[hop].shown() if hop in self._hops else ()
        return tuple(group.front.entry for group in shown)

    def offers_from(self, hop: Hop) -> bool:
        """Return whether an offer of a hop is registered."""
        return hop in self._offers

    def offer_from(self, hop: Hop) -> object:
        """Return what travels with the offer of a hop; None if it has none."""
        return self._offers.baggage_from(hop)

    def version_of(self, hop: Hop) -> int:
        """Return a number that changes whenever a hop may want or offer something else than before."""
        return self._versions.get(hop, 0)

    def sent_to(self, hop: Hop) -> tuple[tuple[RouteEntry, ...], bool]:
        """Return the entries that a neighbour was sent, and whether it was sent an offer."""
        sent = self._sent.get(hop)
        return ((), False) if sent is None else (sent.entries(), sent.offer is not None)

    # ------------------------------------------------------------ what is received

    def change(
        self,
        hop: Hop,
        *,
        add: Iterable[RouteEntry],
        remove: Iterable[bytes],
        links: Links,
        is_stale: bool = False,
    ) -> list[RouteUpdate]:
        """Change the entries of one hop, and only of that hop (A67)."""
        self._versions[hop] = next(self._numbers)
        changed = self._remove(hop, remove, links)
        for entry in add:
            changed |= self._add(hop, entry, links, is_stale=is_stale)
        return self._changed(hop, changed, links)

    def understand_anew(
        self, hop: Hop, *, entries: Iterable[RouteEntry], remove: Iterable[bytes], links: Links
    ) -> list[RouteUpdate]:
        """Take entries of a hop as they are known now; whether they are stale is as it was."""
        changed = self._remove(hop, remove, links)
        for entry in entries:
            held = self._hops[hop].find(entry.id) if hop in self._hops else None
            if held is not None and held.filter_digest != digest_of_meaning(entry):
                changed |= self._remove(hop, (entry.id,), links)
                changed |= self._add(hop, entry, links, is_stale=held.is_stale)
        return self._changed(hop, changed, links) if changed else []

    def _changed(self, hop: Hop, changed: set[Group], links: Links) -> list[RouteUpdate]:
        touched = self._crowd.settle(hop, changed) if changed else changed
        if hop in self._hops and not len(self._hops[hop]):
            del self._hops[hop]
        return self._updates(touched, links)

    def add_offer(
        self,
        hop: Hop,
        advertisement: Hashable,
        baggage: object,
        links: Links,
        *,
        is_stale: bool = False,
        size: int = 0,
    ) -> list[RouteUpdate]:
        """Register an offer of a hop."""
        self._versions[hop] = next(self._numbers)
        if hop in self._offers and is_stale:
            return []
        link, mark = links.get(hop), mark_of_offer(self.type_id)
        if hop != LOCAL:
            self._offers.forget_all_but(hop, advertisement)  # a neighbour has one offer
        if self._offers.add(hop, advertisement, baggage, is_stale=is_stale) and link is not None:
            link.add(mark, is_stale=is_stale)
        elif self._offers.is_stale(hop) and link is not None:
            self._offers.set_stale(hop, False)
            link.fresh.add(mark)
        if link is not None:
            link.bytes += size - self._offers.size_from(hop)
            self._offers.set_size(hop, size)
        return self.bring_up_to_date(links)

    def remove_offer(self, hop: Hop, advertisement: Hashable, links: Links) -> list[RouteUpdate]:
        """Withdraw an advertisement of a hop, or the one that a neighbour has; it need not be there."""
        self._versions[hop] = next(self._numbers)
        if hop != LOCAL or self._offers.remove(hop, advertisement):
            self._withdraw_offer(hop, links)
        return self.bring_up_to_date(links)

    def set_offer_aside(self, advertisement: Hashable, links: Links) -> tuple[Hop | None, list[RouteUpdate]]:
        """Replace an advertisement that a neighbour doubts, if there is another."""
        hop = self._offers.set_aside(advertisement)
        return hop, [] if hop is None else self.bring_up_to_date(links)

    def forget_received(self, hop: Hop, links: Links) -> list[RouteUpdate]:
        """Forget all that a hop sent; what it was sent stays."""
        self._versions.pop(hop, None)
        touched: set[Group] = set()
        if hop in self._hops:
            touched = self._crowd.forget(hop)
            for held in self._hops.pop(hop).all_held():
                self._release(held, links.get(hop))
        self._withdraw_offer(hop, links)
        return self._updates(touched, links)

    def forget_sent(self, hop: Hop) -> None:
        """Forget what a neighbour was sent, without a message: it is gone."""
        self._sent.pop(hop, None)

    # ------------------------------------------------------------ doubt about what was received

    def doubt(self, hop: Hop) -> None:
        """Mark all that a hop sent as stale, until it is sent again."""
        self._set_stale(hop, True)

    def trust(self, hop: Hop) -> None:
        """Take all that a hop sent as current."""
        self._set_stale(hop, False)

    def drop_stale(self, hop: Hop, links: Links) -> list[RouteUpdate]:
        """Forget what a hop has not sent again."""
        if hop in self._offers and self._offers.is_stale(hop):
            self._withdraw_offer(hop, links)
        stale = [held.entry.id for held in self._held_from(hop) if held.is_stale]
        return self.change(hop, add=(), remove=stale, links=links)

    # ------------------------------------------------------------ what is sent

    def bring_up_to_date(self, links: Links) -> list[RouteUpdate]:
        """Tell every neighbour what it ought to know; one whose standing has not changed costs a look."""
        return self._updates(frozenset(), links)

    def send_again(self, hop: Hop) -> list[RouteUpdate]:
        """Repeat all that a neighbour was sent."""
        sent = self._sent.get(hop)
        return [] if sent is None else sent.again(self._offers)

    def send_one_again(self, hop: Hop, entry_id: bytes) -> list[RouteUpdate]:
        """Repeat one entry of a hop to the neighbours that were sent it: its baggage is another one."""
        interests = self._hops.get(hop)
        held = None if interests is None else interests.find(entry_id)
        if interests is None or held is None:
            return []
        group = interests.group_of(held)
        return [update for sent in self._sent.values() for update in sent.one_again(group, held)]

    def _updates(self, touched: Collection[Group], links: Links) -> list[RouteUpdate]:
        audience = self._audience(links)
        updates: list[RouteUpdate] = []
        for hop in [hop for hop in self._sent if hop not in audience]:
            updates += self._sent.pop(hop).withdraw(links[hop].sent)
        ordered = sorted(touched, key=lambda group: group.born)
        for hop in audience:
            sent, groups = self._sent.get(hop), ordered
            if sent is None:
                sent, groups = self._sent.setdefault(hop, SentRoutes(hop, self.type_id)), self._all_shown()
            updates += sent.catch_up(groups, links[hop].sent)
            source = self._offers.source_besides(hop, current=sent.offer) if hop == self.parent else None
            updates += sent.catch_up_with_offer(source, self._offers, links[hop].sent)
        return updates

    def _audience(self, links: Links) -> dict[Hop, None]:
        """Return the neighbours that receive interests: the parent, and those that offer."""
        if not self._hops and not len(self._offers):
            return {}
        return {hop: None for hop in (self.parent, *self._offers) if hop in links}

    def _all_shown(self) -> list[Group]:
        shown = [group for interests in self._hops.values() for group in interests.shown()]
        return sorted(shown, key=lambda group: group.born)

    # ------------------------------------------------------------ one entry

    def _add(self, hop: Hop, entry: RouteEntry, links: Links, *, is_stale: bool) -> set[Group]:
        interests = self._hops.get(hop)
        known = None if interests is None else interests.find(entry.id)
        if known is not None and is_stale:
            return set()  # what the neighbour says itself counts more than what others say of it
        digest = digest_of_meaning(entry)
        mark = self._mark(entry, digest)
        if known is not None and known.filter_digest == digest and self._mark_of(known) == mark:
            self._confirm(known, entry, links.get(hop))
            return set()
        changed = self._remove(hop, (entry.id,), links)
        held = Held(entry, digest, self._free_id(entry.id), is_stale)
        if held.sent_as != entry.id:
            self._aliases[held.sent_as] = (hop, held)
        if (link := links.get(hop)) is not None:
            link.add(mark, is_stale=is_stale)
            link.bytes += entry.size
        interests = self._hops.setdefault(hop, HopInterests(hop))
        return changed | interests.add(held, born=next(self._numbers))

    def _confirm(self, known: Held, entry: RouteEntry, link: NeighbourLink | None) -> None:
        """Keep an entry that is sent again; its baggage may be fresher."""
        if link is not None:
            link.bytes += entry.size - known.entry.size
        known.entry = entry
        if known.is_stale and link is not None:
            known.is_stale = False
            link.fresh.add(self._mark_of(known))

    def _remove(self, hop: Hop, entry_ids: Iterable[bytes], links: Links) -> set[Group]:
        """Remove those entries of a hop that are here, at one moment; return the groups that may change."""
        interests = self._hops.get(hop)
        if interests is None:
            return set()
        here = {one: held for one in entry_ids if (held := interests.find(one)) is not None}
        for held in here.values():
            self._release(held, links.get(hop))
        return interests.remove(here) if here else set()

    def _release(self, held: Held, link: NeighbourLink | None) -> None:
        self._aliases.pop(held.sent_as, None)
        if link is not None:
            link.subtract(self._mark_of(held), is_stale=held.is_stale)
            link.bytes -= held.entry.size

    def _mark_of(self, held: Held) -> int:
        return self._mark(held.entry, held.filter_digest)

    def _mark(self, entry: RouteEntry, meaning: bytes) -> int:
        """Return the mark by which both ends of a link count an entry."""
        return mark_of_interest(self.type_id, entry.id, digest_on_the_link(entry, meaning))

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
        for hop, interests in self._hops.items():
            held = interests.find(sent_as)
            if held is not None and held.sent_as == sent_as:
                return hop, held
        return None

    def _withdraw_offer(self, hop: Hop, links: Links) -> None:
        if hop not in self._offers:
            return
        if (link := links.get(hop)) is not None:
            link.subtract(mark_of_offer(self.type_id), is_stale=self._offers.is_stale(hop))
            link.bytes -= self._offers.size_from(hop)
        self._offers.forget(hop)

    def _held_from(self, hop: Hop) -> Iterator[Held]:
        return self._hops[hop].all_held() if hop in self._hops else iter(())

    def _set_stale(self, hop: Hop, stale: bool) -> None:
        for held in self._held_from(hop):
            held.is_stale = stale
        self._offers.set_stale(hop, stale)
