"""Who granted what to whom, and what depends on one certificate?

The certificates of a register as a graph: principals are its nodes, grants its edges.
Whether a right holds is the kernel's to say (`decisions.py`); here certificates are found,
filtered and put into words.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from maia.console.principal import RegisterEntry
from maia.credentials import (
    ALL_ACTIONS,
    AllAttributes,
    AnyResource,
    AuthorisationCertificate,
    LocalName,
    NetworkPattern,
    Principal,
    Subject,
    Threshold,
    TopicPattern,
    TypePattern,
)
from maia.credentials.authority import EVENT_ACTIONS, ResourcePattern, covers_request
from maia.credentials.names import is_reserved
from maia.errors import BadInput
from maia.events import AttributeUid, Instant
from maia.expressions import format_rule
from maia.predicates import ALWAYS, format_predicate
from maia.profile.address_book import OWN, AddressBook
from maia.types import VerifiedType

NODES_MAX: Final = 120
"""Principals that one drawing shows; a filter narrows a larger one."""
STATES: Final = ("valid", "unconfirmed", "not yet valid", "expired", "revoked")
_KEY_DIGITS: Final = 64
_DIGITS: Final = 8
_CHAIN_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class ShownNames:
    """By which names the console shows keys and attributes; the beginning of a key is beside its name."""

    book: AddressBook
    types: Mapping[bytes, VerifiedType]

    def key(self, text: str) -> str:
        """Return a key by its name and its beginning; without a name, in short."""
        kind, _, digits = text.partition(":")
        if kind in ("ed25519", "quorum") and len(digits) == _KEY_DIGITS:
            return self.book.shown(text) if text in self.book.keys else f"{kind}:{digits[:_DIGITS]}…"
        return self.book.named(text)

    def label(self, text: str) -> str:
        """Return a name that `principal` reads, if the user chose one for this key; else the whole key."""
        known = self.book.keys.get(text)
        if known is None or known.chosen_by != OWN:
            return text
        short = self.principal(known.name) == text
        return known.name if short else f"{known.place.parent.name}/{known.name}"

    @property
    def attributes(self) -> dict[AttributeUid, str]:
        """Return the names of attributes, in the newest versions of the types."""
        return {one.uid: one.name for event_type in self.types.values() for one in event_type.attributes}

    @property
    def by_label(self) -> dict[str, VerifiedType]:
        """Return the types by their names; those of one name as NAME@OWNER."""
        ordered = sorted(self.types.values(), key=lambda one: one.name.name)
        return {self._type_label(one): one for one in ordered}

    def _type_label(self, event_type: VerifiedType) -> str:
        name, owner = event_type.name.name, str(event_type.name.owner)
        if sum(one.name.name == name for one in self.types.values()) == 1:
            return name
        label = self.label(owner)
        return f"{name}@{label if label != owner else owner.partition(':')[2][:_DIGITS]}"

    def type(self, type_id: str) -> str:
        """Return the name of a type, or whose validity statements it carries."""
        known = self.types.get(bytes.fromhex(type_id))
        if known is not None:
            return self._type_label(known)
        stream = self.book.types.get(type_id)
        if stream is None:
            return f"{type_id[:12]}…"
        return f"statements of {self.key(str(stream.owner))}" if is_reserved(stream.name) else stream.name

    def principal(self, word: str) -> str:
        """Return the key that a name means, or the word itself."""
        try:
            return str(self.book.find(word))
        except BadInput:
            return word


@dataclass(frozen=True, slots=True)
class AskedInConsole:
    """Which certificates are looked for."""

    type: str = ""
    person: str = ""
    attribute: str = ""
    state: str = ""


def state_of(entry: RegisterEntry, now: Instant) -> str:
    """Return whether a certificate counts at a moment."""
    validity = entry.signed.certificate.validity
    if entry.problem == "revoked" or (entry.revoked_at is not None and entry.revoked_at <= now):
        return "revoked"
    if validity.not_after is not None and validity.not_after < now:
        return "expired"
    if not validity.contains(now):
        return "not yet valid"
    return entry.problem or "valid"


def subject_text(subject: Subject) -> str:
    """Return a subject as one line."""
    match subject:
        case LocalName(space, words):
            return f"{space} {' '.join(words)}"
        case Threshold(needed, members):
            return f"{needed} of ({', '.join(map(subject_text, members))})"
    return str(subject)


def resource_text(resources: ResourcePattern, names: ShownNames) -> str:
    """Return what a grant is about."""
    match resources:
        case NetworkPattern(owner, name):
            what = f"network {name}"
        case TypePattern(owner, name, version):
            what = f"type {name}" + (f", version {version}" if version else "")
        case TopicPattern(owner, path):
            what = f"topic {path}"
        case AnyResource(owner):
            what = "everything"
    return f"{what} of {'any owner' if owner is None else names.key(str(owner))}"


def record_of(entry: RegisterEntry, names: ShownNames, now: Instant) -> dict[str, object]:
    """Return a certificate as named fields."""
    said = entry.signed.certificate
    issuer, subject = str(said.issuer), subject_text(said.subject)
    record: dict[str, object] = {
        "id": entry.signed.id.hex(),
        "issuer": issuer,
        "issuer_name": names.key(issuer),
        "subject": subject,
        "subject_name": names.key(subject),
        "state": state_of(entry, now),
        "not_before": None if said.validity.not_before is None else str(said.validity.not_before),
        "not_after": None if said.validity.not_after is None else str(said.validity.not_after),
        "tests": [f"{test.kind.value} by {names.key(str(test.by))}" for test in said.validity.tests],
        "as_of": None if entry.as_of is None else str(entry.as_of),
        "revoked_at": None if entry.revoked_at is None else str(entry.revoked_at),
        "reason": entry.reason,
        "rule": entry.rule,
    }
    if not isinstance(said, AuthorisationCertificate):
        return record | {"grants": f"is called {said.name}", "actions": [], "resource": "a name"}
    authority, known = said.authority, names.attributes
    actions = (
        ["everything"] if authority.actions == ALL_ACTIONS else sorted(a.value for a in authority.actions)
    )
    shown = None
    if not isinstance(authority.attributes, AllAttributes) and authority.actions & EVENT_ACTIONS:
        shown = sorted(known.get(uid, uid) for uid in authority.attributes)
    rules = [format_rule(rule, known) for step in authority.transformations for rule in step.rules]
    return record | {
        "actions": actions,
        "resource": resource_text(authority.resources, names),
        "attributes": shown,
        "where": None if authority.restriction == ALWAYS else format_predicate(authority.restriction, known),
        "condition": None if authority.condition == ALWAYS else format_predicate(authority.condition, known),
        "transforms": rules,
        "may_delegate": said.may_delegate,
    }


def filtered(
    entries: Iterable[RegisterEntry], asked: AskedInConsole, names: ShownNames, now: Instant
) -> list[RegisterEntry]:
    """Return the certificates that fit, the newest state first: valid ones before those that are over."""
    types = [one for label, one in names.by_label.items() if asked.type and asked.type in label]
    who = names.principal(asked.person)
    uids = {uid for uid, name in names.attributes.items() if name == asked.attribute} | {asked.attribute}
    found = []
    for entry in entries:
        said = entry.signed.certificate
        people = (str(said.issuer), subject_text(said.subject))
        if asked.person and who not in people:
            continue
        if asked.state and state_of(entry, now) != asked.state:
            continue
        if asked.type or asked.attribute:
            if not isinstance(said, AuthorisationCertificate):
                continue
            authority = said.authority
            is_about = any(
                covers_request(authority, action, one.name) for one in types for action in authority.actions
            )
            if asked.type and not is_about and asked.type not in resource_text(authority.resources, names):
                continue
            has = isinstance(authority.attributes, AllAttributes) or bool(uids & set(authority.attributes))
            if asked.attribute and not (has and authority.actions & EVENT_ACTIONS):
                continue
        found.append(entry)
    return sorted(found, key=lambda one: STATES.index(state_of(one, now)))


@dataclass(frozen=True, slots=True)
class Graph:
    """Principals in layers, owners first, and how many certificates lead from one to another."""

    layers: tuple[tuple[str, ...], ...]
    edges: Mapping[tuple[str, str], int]
    left_out: int
    """Principals for which the drawing had no room."""


def graph_of(entries: Iterable[RegisterEntry], *, nodes_max: int = NODES_MAX) -> Graph:
    """Lay certificates out: each principal one layer behind the nearest that has granted it something."""
    edges: dict[tuple[str, str], int] = defaultdict(int)
    for entry in entries:
        said = entry.signed.certificate
        edges[str(said.issuer), subject_text(said.subject)] += 1
    after: dict[str, list[str]] = defaultdict(list)
    for issuer, subject in edges:
        after[issuer].append(subject)
    nodes = dict.fromkeys(one for edge in edges for one in edge)
    granted = {subject for issuer, subject in edges if issuer != subject}
    depth = {one: 0 for one in nodes if one not in granted}
    queue = deque(depth)
    while queue or len(depth) < len(nodes):
        if not queue:  # a circle that no owner leads to
            first = next(one for one in nodes if one not in depth)
            depth[first] = 0
            queue.append(first)
        one = queue.popleft()
        for other in after[one]:
            if other not in depth:
                depth[other] = depth[one] + 1
                queue.append(other)
    kept = dict(list(depth.items())[:nodes_max])
    layers: list[list[str]] = [[] for _ in range(1 + max(kept.values(), default=0))]
    for one, level in kept.items():  # in the order in which they were reached, so near what granted them
        layers[level].append(one)
    shown = {edge: count for edge, count in edges.items() if edge[0] in kept and edge[1] in kept}
    return Graph(tuple(map(tuple, layers)), shown, len(nodes) - len(kept))


def chain_above(entry: RegisterEntry, entries: Sequence[RegisterEntry], now: Instant) -> list[RegisterEntry]:
    """Return the certificates from the owner down to this one: the first way that is found, valid ones first.

    Empty where the issuer owns what it grants, or where the register does not have the way.
    """
    said = entry.signed.certificate
    if not isinstance(said, AuthorisationCertificate):
        return []
    to: dict[str, list[RegisterEntry]] = defaultdict(list)
    for one in sorted(entries, key=lambda other: state_of(other, now) != "valid"):
        other = one.signed.certificate
        if (
            isinstance(other, AuthorisationCertificate)
            and other.may_delegate
            and said.authority.actions & other.authority.actions
        ):
            to[subject_text(other.subject)].append(one)
    owner = said.authority.resources.owner
    queue: deque[tuple[str, tuple[RegisterEntry, ...]]] = deque([(str(said.issuer), ())])
    seen = {str(said.issuer)}
    while queue:
        holder, way = queue.popleft()
        if holder == str(owner):
            return list(way)
        for one in to[holder] if len(way) < _CHAIN_MAX else ():
            issuer = str(one.signed.certificate.issuer)
            if issuer not in seen:
                seen.add(issuer)
                queue.append((issuer, (one, *way)))
    return []


def issued_below(entry: RegisterEntry, entries: Sequence[RegisterEntry]) -> list[Principal]:
    """Return the subject of a certificate and all that it has passed anything on to, directly or not."""
    after: dict[str, list[Subject]] = defaultdict(list)
    for one in entries:
        after[str(one.signed.certificate.issuer)].append(one.signed.certificate.subject)
    found: dict[Principal, None] = {}
    queue = deque([entry.signed.certificate.subject])
    while queue:
        subject = queue.popleft()
        if isinstance(subject, Principal) and subject not in found:
            found[subject] = None
            queue.extend(after[str(subject)])
    return list(found)


def people_in(entries: Sequence[RegisterEntry]) -> list[Principal]:
    """Return the principals that grant something, or that something was granted to."""
    found: dict[Principal, None] = {}
    for entry in entries:
        said = entry.signed.certificate
        for one in (said.issuer, said.subject):
            if isinstance(one, Principal):
                found[one] = None
    return list(found)
