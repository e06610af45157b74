"""A type has a new version: whose rights does it change, and who still uses the one before?

A version that only adds or renames changes nobody's right. An attribute that is new is seen by those
whose right lists no attributes; one that is gone, or has another kind, takes the events of the new version
from those whose right asks for it. Certificates say so, and brokers say which versions are in use now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.config.type_folder import in_order_of_making
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    Subject,
    TypeName,
    TypePattern,
    issue,
)
from maia.errors import MaiaError
from maia.events import Instant
from maia.expressions.syntax import reads_of
from maia.organisation.offer import chain_certificates, news_of
from maia.policy.view import is_among
from maia.predicates.syntax import ALWAYS, attributes_of
from maia.profile.newer_types import told_by
from maia.types import SignedDefinition, TypeDefinition, TypeShape

if TYPE_CHECKING:
    from maia.credentials import SigningKey

_EVENT_ACTIONS: Final = (Action.PUBLISH, Action.SUBSCRIBE)


@dataclass(frozen=True, slots=True)
class Holder:
    """A right to a type, and what a new version means for it."""

    signed: SignedCertificate = field(repr=False)
    action: Action
    hidden: tuple[str, ...]
    """The attributes that are new and that it does not open, as it lists those that it opens."""
    gone: tuple[str, ...]
    """The attributes that it asks for and that the new version does not have: it opens none of its events."""

    all_listed: tuple[str, ...] = ()
    """The attributes that it lists, and those that are new."""
    has_other_terms: bool = False
    """Whether it is narrower in another way, too."""

    @property
    def subject(self) -> Subject:
        """Return whose right it is."""
        return self.signed.certificate.subject


@dataclass(frozen=True, slots=True)
class InUse:
    """A version that a client has at this moment, at a broker of ours."""

    peer: str
    action: str
    version: str
    is_newest: bool


def holders_of(
    issued: Iterable[SignedCertificate], old: TypeShape | None, new: TypeDefinition
) -> list[Holder]:
    """Return the rights to a type among certificates, and what the step to a version means for each."""
    every = _each(issued, old, new)
    opened: dict[tuple[Subject, Action], set[str]] = {}
    for one in every:  # what one right hides, another of the same holder may show
        opened.setdefault((one.subject, one.action), set(one.hidden)).intersection_update(one.hidden)
    return [
        replace(one, hidden=tuple(name for name in one.hidden if name in opened[one.subject, one.action]))
        for one in every
    ]


def _each(issued: Iterable[SignedCertificate], old: TypeShape | None, new: TypeDefinition) -> list[Holder]:
    before = frozenset() if old is None else frozenset(old.kinds)
    added = {one.uid: one.name for one in new.attributes if one.uid not in before} if old is not None else {}
    had = {} if old is None else {one.uid: one.name for one in old.attributes if one.uid not in new.kinds}
    found: list[Holder] = []
    for signed in issued:
        said = signed.certificate
        if not isinstance(said, AuthorisationCertificate) or not _is_about(said, new.name):
            continue
        right = said.authority
        asked = {*attributes_of(right.restriction)}.union(
            *(reads_of(one.rules) for one in right.transformations)
        )
        opens = ALL_ATTRIBUTES if right.transformations else right.attributes
        hidden = tuple(name for uid, name in added.items() if not is_among(uid, opens))
        gone = tuple(name for uid, name in had.items() if uid in asked)
        listed = tuple(
            one.name for one in new.attributes if one.name in hidden or is_among(one.uid, right.attributes)
        )
        is_narrow = right.restriction != ALWAYS or right.condition != ALWAYS
        found += [
            Holder(signed, one, hidden, gone, listed, is_narrow)
            for one in _EVENT_ACTIONS
            if one in right.actions
        ]
    return found


def _is_about(said: AuthorisationCertificate, name: TypeName) -> bool:
    about = said.authority.resources
    return isinstance(about, TypePattern) and about.owner == name.owner and about.name.exact == name.name


def widened(
    signed: SignedCertificate, new: TypeDefinition, hidden: Collection[str], key: SigningKey
) -> SignedCertificate:
    """Return a certificate that also opens some attributes, and is the same otherwise."""
    said = signed.certificate
    assert isinstance(said, AuthorisationCertificate)  # noqa: S101 - a holder has one
    assert said.authority.attributes is not ALL_ATTRIBUTES  # noqa: S101 - nothing is hidden from it
    also = {new.vocabulary[name].uid for name in hidden}
    right = replace(said.authority, attributes=said.authority.attributes | also)
    return issue(replace(said, authority=right), key)


def in_use(data: Iterable[Path], name: TypeName) -> tuple[list[InUse], list[str]]:
    """Ask brokers on this machine who uses which version of a type; and return which did not answer."""
    from maia.net.status_endpoint import NoStatus, fetch_status, process_folders, read_door

    found, silent = dict[InUse, None](), list[str]()
    for folder in data:
        for part in process_folders(folder) or [folder]:
            try:
                status: Any = fetch_status(read_door(part))  # Any: what a broker says of itself
            except NoStatus as problem:
                silent.append(problem.message)
                continue
            for link in status.get("links", ()):
                for one in link.get("uses", ()):
                    if (one["owner"], one["name"]) == (str(name.owner), name.name):
                        version = str(one["version"])
                        is_newest = version == str(name.version)
                        found[InUse(str(link["peer"]), str(one["action"]), version, is_newest)] = None
    return sorted(found, key=lambda one: (one.is_newest, one.peer, one.action)), silent


def newer_from(
    servers: Iterable[tuple[str, Principal]],
    ours: Principal,
    key: SigningKey,
    held: Sequence[SignedCertificate],
    known: Sequence[SignedDefinition],
    now: Instant,
) -> tuple[SignedDefinition, ...]:
    """Return newer versions of others' types to which we hold a right, as servers of others tell them.

    What they tell is trusted for nothing: a version counts if its owner has signed it, and the lineage
    leads to one that we have.
    """
    told: list[SignedDefinition] = []
    for server, domain in servers:
        with suppress(MaiaError):  # one that does not answer now is asked again
            told += told_by(server, domain, key)
    found: list[SignedDefinition] = []
    for owner, name in {(one.definition.name.owner, one.definition.name.name) for one in known}:
        mine, offered = (
            [one for one in some if (one.definition.name.owner, one.definition.name.name) == (owner, name)]
            for some in (known, told)
        )
        ids = {one.definition.name for one in mine}
        if owner == ours or all(one.definition.name in ids for one in offered):
            continue
        wanted = [(action, mine[0].definition.name) for action in _EVENT_ACTIONS]
        if not chain_certificates(held, ours, wanted, now):
            continue
        with suppress(MaiaError):  # a fork, or versions that do not verify: what is held counts
            found += [one for one in news_of(offered, mine, now) if one.definition.name not in ids]
    return in_order_of_making(found)
