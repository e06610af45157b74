"""What does one version of an event type say?

A definition is a value: the name, the version it was made from, the super-type
that it extends, the attributes, whether its events travel sealed, and the
credentials of whoever signs it (dissertation, tables 4.1 to 4.4). Its bytes
are in `encoding.py`; whether to believe it is answered in `verification.py`.
A definition that exists is well formed: names and uids are unique, a sub-type
keeps all that it inherits as it is, and every count is bounded.

A definition holds the signed definition of its super-type, so that it can be
verified without anything else (docs/decisions/inheritance.md).

The owner of the topics below `/news` signs one declaration: the definition of
the type `topic.news`, whose attribute `topic` holds the path that an event was
published on. Everything else follows from that. All topics of a tree meet at
one rendezvous node, are covered, sealed, recorded and governed as one type,
and a right to some of them is a restriction on `topic` (docs/decisions/topics.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, Protocol

from maia.credentials.certificate import SignedCertificate
from maia.credentials.keys import Owner, Principal
from maia.credentials.names import (
    FIRST_VERSION,
    BadName,
    TypeName,
    Version,
    checked_topic_path,
    checked_version,
    is_reserved,
)
from maia.errors import BadInput
from maia.events import Attribute, AttributeUid, BadAttribute, Kind, vocabulary_of
from maia.predicates.path_patterns import LEVELS_MAX, ONE, PathPattern, parse_path_pattern
from maia.predicates.syntax import AnyOf, Predicate, TextMatch, TextTest

TOPIC: Final = Attribute("topic", AttributeUid("topic"), Kind.STRING)
"""The path that an event was published on; every declaration of topics has it, and first."""

PAYLOAD: Final = Attribute("payload", AttributeUid("payload"), Kind.BYTES)
CONTENT_TYPE: Final = Attribute("content_type", AttributeUid("content-type"), Kind.STRING)

PUBLICATION: Final = Attribute("publication", AttributeUid("publication"), Kind.BYTES)
"""Of trees whose publications may have several topics: the same bytes in the events on each of them."""

TREE_PREFIX: Final = "topic."


def tree_name(owner: Owner, path: str, version: Version = FIRST_VERSION) -> TypeName:
    """Return the type on which events of the tree around `path` travel: `topic.news` for `/news/uk`."""
    return TypeName(owner, tree_label(parse_path_pattern(path)), version)


def tree_label(pattern: PathPattern) -> str:
    """Return the readable name of the tree in which all topics of a pattern lie; one pattern, one tree."""
    if pattern.levels[0] == ONE:
        raise BadName(f"`{pattern}` speaks of several trees of topics: name one, such as `/news`")
    name = TREE_PREFIX + pattern.levels[0]
    tree_root(name)
    return name


def tree_meant(text: str) -> tuple[str, str]:
    """Return the word for the tree of a topic or pattern, and these: `/news/uk@hamburg` names the owner."""
    path, at, whose = text.partition("@")
    return f"{tree_label(parse_path_pattern(path))}{at}{whose}", path


def tree_root(name: str) -> str | None:
    """Return `/news` for the readable name `topic.news`, and None for a type that is no tree of topics."""
    if not name.startswith(TREE_PREFIX):
        return None
    root = "/" + name.removeprefix(TREE_PREFIX)
    if is_reserved(f"{root}/"):
        raise BadName(f"`{root}` is reserved: its topics are how a domain is administered")
    return checked_topic_path(root)  # a second dot is no part of a level


def topic_attributes(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    """Return the attributes of a declaration of topics whose events have these."""
    return (TOPIC, *(one for one in attributes if one != TOPIC))


def plain_attributes(texts: Iterable[Attribute] = ()) -> tuple[Attribute, ...]:
    """Return the attributes of plain topics: some bytes, what they are, and texts of the owner's choice."""
    texts = tuple(texts)
    for one in texts:
        if one.kind is not Kind.STRING:
            raise BadName(f"attribute `{one.name}` of a plain topic is a text, and not {one.kind.value}")
    return (TOPIC, PAYLOAD, CONTENT_TYPE, *texts)


def checked_topic(path: str, root: str) -> str:
    """Return `path` as a topic of the tree `root` on which an event can be published."""
    if checked_topic_path(path).count("/") > LEVELS_MAX:
        raise BadName(f"a topic has at most {LEVELS_MAX} levels")
    if not PathPattern((root[1:],), has_rest=True).matches(path):
        raise BadName(f"`{path}` is no topic of `{root}`")
    return path


def is_topic(path: object, root: str) -> bool:
    """Return whether a value is such a path."""
    try:
        return isinstance(path, str) and checked_topic(path, root) == path
    except BadName:
        return False


def on_topics(patterns: Iterable[PathPattern]) -> Predicate:
    """Return the filter, or the restriction, of the topics that at least one of some patterns means."""
    atoms = tuple(TextMatch(TOPIC.uid, TextTest.LEVELS, str(pattern)) for pattern in patterns)
    return atoms[0] if len(atoms) == 1 else AnyOf(atoms)


def check_declaration(name: str, attributes: tuple[Attribute, ...]) -> str | None:
    """Say what keeps a definition from declaring topics, if its name says that it does."""
    if tree_root(name) is None or attributes[:1] == (TOPIC,):
        return None
    return f"`{name}` declares topics: its first attribute is `topic:string` with the uid `topic`"


# How events of the type are protected on the way.


ADDRESSES_MAX: Final = 16
"""How many addresses of its key manager a definition may name."""

COVER_EVERY_MS_MIN: Final = 10
COVER_EVERY_MS_MAX: Final = 3_600_000
"""How long the slots of a covered type are: a hundred frames a second at most, one an hour at least."""
COVER_BYTES_MIN: Final = 512
COVER_BYTES_MAX: Final = 1 << 16
"""How large the frames of a covered type are, before they are encrypted; a power of two."""

ENVELOPE_UID: Final = AttributeUid("maia-envelope")
"""The column of a blinded frame that says who published it; no attribute of a blinded type has this uid."""

_ADDRESS: Final = re.compile(r"[!-~]{1,256}")


class SealingLevel(Enum):
    """What is sealed as one: all attributes of an event together, or each attribute alone."""

    EVENT = "event"
    ATTRIBUTE = "attribute"


class Protection(Enum):
    """What is done for events of a type between brokers, from the least to the most."""

    NONE = "none"
    SIGNED = "signed"
    EVENT = SealingLevel.EVENT.value
    ATTRIBUTE = SealingLevel.ATTRIBUTE.value


@dataclass(frozen=True, slots=True)
class Cover:
    """How a publisher's broker fills the silence: one frame every so often, all of one size.

    A slot without an event is filled with a cover frame. An event waits for its slot.
    """

    every_ms: int
    size_bytes: int

    def __post_init__(self) -> None:
        """Refuse a rate or a size outside the limits."""
        if not COVER_EVERY_MS_MIN <= self.every_ms <= COVER_EVERY_MS_MAX:
            raise BadInput(
                "TYPE-SEALING",
                f"cover frames are sent every {COVER_EVERY_MS_MIN} to {COVER_EVERY_MS_MAX} milliseconds",
            )
        size = self.size_bytes
        if not COVER_BYTES_MIN <= size <= COVER_BYTES_MAX or size & (size - 1):
            raise BadInput(
                "TYPE-SEALING",
                f"covered frames have a power of two from {COVER_BYTES_MIN} to {COVER_BYTES_MAX} bytes",
            )


@dataclass(frozen=True, slots=True)
class Sealing:
    """The owner's choice: the level, who runs the key groups, and hints where that manager listens.

    An address proves nothing. The dialling side checks the manager's key.
    """

    level: SealingLevel
    manager: Principal
    addresses: tuple[str, ...] = ()
    blinded: bool = False
    """Whether the type travels under ids that change with each epoch."""
    cover: Cover | None = None

    def __post_init__(self) -> None:
        """Refuse what no definition could carry."""
        if self.blinded and self.level is not SealingLevel.EVENT:
            raise BadInput(
                "TYPE-SEALING",
                "a blinded type is sealed at event level: attribute uids would tell which it is",
            )
        if self.cover is not None and not self.blinded:
            raise BadInput(
                "TYPE-SEALING", "cover frames are for blinded types: a type that shows its id needs none"
            )
        if len(self.addresses) > ADDRESSES_MAX:
            raise BadInput(
                "TYPE-SEALING", f"a definition names at most {ADDRESSES_MAX} addresses of its key manager"
            )
        if len(set(self.addresses)) != len(self.addresses):
            raise BadInput("TYPE-SEALING", "a definition names the same address of its key manager twice")
        for address in self.addresses:
            if _ADDRESS.fullmatch(address) is None:
                raise BadInput(
                    "TYPE-SEALING", "an address of a key manager has 1 to 256 visible ASCII characters"
                )


_STRENGTH: Final = {None: 0, SealingLevel.EVENT: 1, SealingLevel.ATTRIBUTE: 2}


def is_weaker(sealing: Sealing | None, *, than: Sealing | None) -> bool:
    """Return whether one choice protects less than another; plaintext < event < attribute.

    Blinding and cover are never given up, and none of them makes up for a lower level.
    """
    return any(mine < theirs for mine, theirs in zip(_strength(sealing), _strength(than), strict=True))


def strongest(sealings: Iterable[Sealing | None]) -> Sealing | None:
    """Return the choice that protects most, the last one among equals; the level counts first."""
    found: Sealing | None = None
    for sealing in sealings:
        if _strength(sealing) >= _strength(found):
            found = sealing
    return found


def _strength(sealing: Sealing | None) -> tuple[int, bool, bool]:
    if sealing is None:
        return _STRENGTH[None], False, False
    return _STRENGTH[sealing.level], sealing.blinded, sealing.cover is not None


CREDENTIALS_MAX: Final = 64
"""How many certificates one definition may carry."""

SUPER_TYPES_MAX: Final = 8
"""How many super-types lie above one type at most."""
EMBEDDED_MAX: Final = 32
"""How many definitions, of super-types and the versions they were made from, one definition may hold."""


class BadDefinition(BadInput):
    """A type definition contradicts itself or leaves something out."""

    code = "TYPE-DEFINITION"


class TypeShape(Protocol):
    """The attributes of one version, indexed both ways: all that translation and checks need."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes in the order of the definition."""

    @property
    def vocabulary(self) -> Mapping[str, Attribute]:
        """Return the attributes by name."""

    @property
    def kinds(self) -> Mapping[AttributeUid, Kind]:
        """Return the kind of each attribute by uid."""


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """One version of an event type, as its author wrote it, unchecked."""

    name: TypeName
    previous: Version | None
    attributes: tuple[Attribute, ...]
    credentials: tuple[SignedCertificate, ...] = ()
    sealing: Sealing | None = None
    """How events travel between brokers; None for plaintext."""
    extends: tuple[SignedDefinition, ...] = ()
    """The super-type after the versions that it was made from, oldest first; empty if there is none.

    The earlier versions are needed only where the super-type's signer holds some management rights alone.
    """
    ledger: bool = False
    """Whether brokers have to put every delivery on record (`maia.ledger`)."""
    signed: bool = False
    """Whether frames travel signed, in the clear; those of a sealed type always do."""
    vocabulary: Mapping[str, Attribute] = field(init=False, repr=False, compare=False)
    kinds: Mapping[AttributeUid, Kind] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a definition that no verifier could accept."""
        _check_previous(self.name.version, self.previous)
        _check_credentials(self.credentials)
        vocabulary = _vocabulary(self.attributes)
        problem = check_declaration(self.name.name, self.attributes)
        if problem is not None:
            raise BadDefinition(problem)
        object.__setattr__(self, "vocabulary", MappingProxyType(vocabulary))
        kinds = {attribute.uid: attribute.kind for attribute in self.attributes}
        if self.signed and self.sealing is not None:
            raise BadDefinition("frames of a sealed type are signed: its protection is its level alone")
        if self.sealing is not None and self.sealing.blinded and ENVELOPE_UID in kinds:
            raise BadDefinition(f"no attribute of a blinded type has the uid `{ENVELOPE_UID}`")
        object.__setattr__(self, "kinds", MappingProxyType(kinds))
        if self.extends:
            if any(tree_root(one.definition.name.name) is not None for one in self.extends):
                raise BadDefinition("a tree of topics has no sub-types: declare another tree")
            _check_extends(self)

    @property
    def protection(self) -> Protection:
        """Return what is done for its events between brokers."""
        if self.sealing is not None:
            return Protection(self.sealing.level.value)
        return Protection.SIGNED if self.signed else Protection.NONE

    @property
    def super_type(self) -> TypeDefinition | None:
        """Return the version of the super-type that this definition names, as it was signed."""
        return self.extends[-1].definition if self.extends else None

    @property
    def super_types(self) -> Iterator[TypeDefinition]:
        """Yield the super-types, the nearest first."""
        above = self.super_type
        while above is not None:
            yield above
            above = above.super_type

    @property
    def embedded(self) -> int:
        """Return how many definitions this one holds, those inside others included."""
        return sum(1 + signed.definition.embedded for signed in self.extends)


def protects_less(one: TypeDefinition, *, than: TypeDefinition) -> bool:
    """Return whether a definition protects its events less than another one."""
    is_stripped = than.signed and one.protection is Protection.NONE
    return is_stripped or is_weaker(one.sealing, than=than.sealing)


@dataclass(frozen=True, slots=True)
class SignedDefinition:
    """A definition, who signed it, and the exact bytes that were signed.

    `id` is SHA-256 over the signed bytes and never over the signature. Nothing
    here says that the signature holds: only a `VerifiedType` does.
    """

    definition: TypeDefinition
    signer: Principal
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    id: bytes


def _check_previous(version: Version, previous: Version | None) -> None:
    if version == FIRST_VERSION:
        if previous is not None:
            raise BadDefinition("version `0` is the first: it has no previous version")
        return
    if previous is None:
        raise BadDefinition(f"version `{version}` must name the version it was made from")
    checked_version(previous)
    if previous == version:
        raise BadDefinition(f"version `{version}` names itself as its previous version")


def _check_extends(definition: TypeDefinition) -> None:
    """Refuse a definition that is no sub-type of the one it holds: it adds, and changes nothing."""
    above, name = definition.extends[-1].definition, definition.name
    supers = list(definition.super_types)
    if any((one.name.owner, one.name.name) == (name.owner, name.name) for one in supers):
        raise BadDefinition("TYPE-SUPER-TYPES-IN-A-CIRCLE", f"`{name.name}` would be its own super-type")
    if len(supers) > SUPER_TYPES_MAX:
        raise BadDefinition(
            "TYPE-INHERITANCE-TOO-DEEP",
            f"`{name.name}` would have more than {SUPER_TYPES_MAX} super-types above it",
        )
    if definition.embedded > EMBEDDED_MAX:
        raise BadDefinition(
            "TYPE-INHERITANCE-TOO-DEEP",
            f"a definition holds at most {EMBEDDED_MAX} definitions of super-types",
        )
    if is_reserved(above.name.name) or is_reserved(name.name):
        raise BadDefinition("TYPE-NOT-EXTENSIBLE", f"`{above.name.name}` cannot be extended by `{name.name}`")
    for attribute in above.attributes:
        if definition.vocabulary.get(attribute.name) != attribute:
            raise BadDefinition(
                "TYPE-INHERITED-CHANGED",
                f"`{name.name}` inherits `{attribute.name}` ({attribute.kind.value}, uid {attribute.uid}) "
                f"from `{above.name.name}` and must have it unchanged",
            )
    if protects_less(definition, than=above):
        raise BadDefinition(
            "TYPE-SUB-TYPE-SEALS-LESS",
            f"`{name.name}` protects its events less than its super-type `{above.name.name}`",
        )


def _check_credentials(credentials: tuple[SignedCertificate, ...]) -> None:
    if len(credentials) > CREDENTIALS_MAX:
        raise BadDefinition(f"a definition carries at most {CREDENTIALS_MAX} certificates")
    if len({certificate.id for certificate in credentials}) != len(credentials):
        raise BadDefinition("a definition carries the same certificate twice")


def _vocabulary(attributes: tuple[Attribute, ...]) -> dict[str, Attribute]:
    if not attributes:
        raise BadDefinition("a type has at least one attribute")
    try:
        return vocabulary_of(attributes)
    except BadAttribute as problem:
        raise BadDefinition(problem.message) from problem
