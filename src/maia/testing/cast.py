"""Who takes part in a test, with which keys and certificates?

    cast = Cast.of("hospital", "lab", "office", of_type="LabResult", ward="string", value="float")
    cast = cast.let("lab", Action.PUBLISH).let("office", Action.SUBSCRIBE, attributes={"value"})

Every key grows from a seed, so that a failing test shows the same keys each time. All three worlds (`Net`,
`Simulation`, `Processes`) are handed a cast, and `grant` writes one more certificate in any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

from maia.credentials import (
    FIRST_VERSION,
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    NetworkPattern,
    OnlineTest,
    Principal,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    Subject,
    TestKind,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
    issue,
)
from maia.credentials.brokers import AS_BROKER
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.types import Sealing, SignedDefinition, TypeDefinition, sign_definition, type_id

BEGINNING: Final = Instant.parse("2026-11-15T12:00:00Z")
"""The moment at which every world begins unless it is told another."""
Resource: TypeAlias = NetworkName | TypeName | SignedDefinition | ResourcePattern | Authority
"""What a certificate may be about: by its name, or in the words of a certificate."""


def random_from(seed: bytes) -> Callable[[int], bytes]:
    """Return a source of bytes that are the same in every run."""
    calls = 0

    def more(size: int) -> bytes:
        nonlocal calls
        calls += 1
        block = sha256(seed + calls.to_bytes(8, "big")).digest()
        return (block * (size // 32 + 1))[:size]

    return more


def key_of(who: str, seed: bytes = b"") -> SigningKey:
    """Return the key of a principal in whatever grows from `seed`."""
    return SigningKey.from_seed(sha256(seed + who.encode()).digest())


def address_of(name: str) -> str:
    """Return where a broker listens."""
    return f"{name.replace(' ', '-')}:7400"


def pattern_of(on: NetworkName | TypeName | SignedDefinition | ResourcePattern) -> ResourcePattern:
    """Return a resource as certificates name it: a network, or a type in all of its versions."""
    if isinstance(on, SignedDefinition):
        on = on.definition.name
    if isinstance(on, NetworkName):
        return NetworkPattern(on.owner, exact_name(on.name))
    return TypePattern(on.owner, exact_name(on.name), None) if isinstance(on, TypeName) else on


def grant(  # noqa: PLR0913 - the fields of a certificate
    issuer: SigningKey,
    subject: SigningKey | Subject,
    on: Resource,
    *actions: Action,
    may_delegate: bool = False,
    validity: Validity = UNBOUNDED,
    test: TestKind | None = None,
    by: Principal | None = None,
    comment: str = "",
    **terms: Any,
) -> SignedCertificate:
    """Issue one certificate; `terms` are other fields of an authority, `test` demands the word of `by`."""
    if test is not None:
        validity = validity.with_tests(OnlineTest(test, by or issuer.principal))
    to = subject.principal if isinstance(subject, SigningKey) else subject
    authority = on if isinstance(on, Authority) else Authority(pattern_of(on), frozenset(actions), **terms)
    return issue(
        AuthorisationCertificate(issuer.principal, to, may_delegate, authority, validity, comment), issuer
    )


@dataclass(frozen=True, slots=True)
class Cast:
    """Keys by name, one network, one type, and certificates in the order in which they were issued."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    network: NetworkName
    definition: SignedDefinition
    certificates: tuple[SignedCertificate, ...]
    wallets: Mapping[str, tuple[SignedCertificate, ...]] = field(default_factory=dict)
    """What each broker shows, where that is not only a right to connect."""
    seed: bytes = field(default=b"", repr=False)
    validity: Validity = UNBOUNDED

    @classmethod
    def of(
        cls, owner: str, *people: str, of_type: str = "Event", seed: bytes = b"a cast", **attributes: str
    ) -> Cast:
        """Make keys for an owner of a network and a type, and for people who may connect to it."""
        keys = {who: key_of(who, seed) for who in (owner, *people)}
        network = NetworkName(keys[owner].principal, owner)
        shape = tuple(
            Attribute(name, attribute_uid(name), Kind[kind.upper()]) for name, kind in attributes.items()
        )
        definition = TypeDefinition(TypeName(keys[owner].principal, of_type, FIRST_VERSION), None, shape)
        cast = cls(keys, network, sign_definition(definition, keys[owner]), (), seed=seed)
        connects = tuple(cast.connect_right(keys[who].principal) for who in people)
        return replace(cast, certificates=connects)

    # ------------------------------------------------------------ who, and what about

    def principal(self, who: str) -> Principal:
        """Return the public key of a member of the cast."""
        return self.keys[who].principal

    @property
    def owner(self) -> SigningKey:
        """Return the key of the owner of network and type."""
        return next(key for key in self.keys.values() if key.principal == self.network.owner)

    @property
    def type_name(self) -> TypeName:
        """Return the name of the type, with its version."""
        return self.definition.definition.name

    @property
    def type_id(self) -> bytes:
        """Return what brokers know the type by."""
        return type_id(self.type_name.owner, self.type_name.name)

    @property
    def kinds(self) -> dict[str, Kind]:
        """Return the kind of each attribute."""
        return {one.uid: one.kind for one in self.definition.definition.attributes}

    def identity(self, name: str) -> tuple[SigningKey, tuple[SignedCertificate, ...]]:
        """Return the key of a broker and what it shows: that it is the owner's, unless the cast says more."""
        if name in self.wallets:
            return self.keys[name], self.wallets[name]
        key = self.keys.get(name) or key_of(name, self.seed)
        is_owner = key.principal == self.network.owner  # whose brokers have other keys
        return key, (self.connect_right(key) if is_owner else self.broker_right(key),)

    # ------------------------------------------------------------ certificates

    def grant(
        self,
        issuer: str | SigningKey,
        subject: str | SigningKey | Subject,
        on: Resource,
        *actions: Action,
        **more: Any,  # of `grant`
    ) -> SignedCertificate:
        """Issue one more certificate, which is valid for as long as the others unless it says otherwise."""
        key = self.keys[issuer] if isinstance(issuer, str) else issuer
        to = self.keys[subject] if isinstance(subject, str) else subject
        comment = f"{issuer} to {subject}" if isinstance(issuer, str) and isinstance(subject, str) else ""
        return grant(
            key,
            to,
            on,
            *actions,
            **{"comment": comment, **more, "validity": more.get("validity") or self.validity},
        )

    def right(self, to: str | SigningKey | Subject, *actions: Action, **more: Any) -> SignedCertificate:
        """Let the owner grant a right to the type."""
        return self.grant(self.owner, to, self.definition, *actions, **more)

    def connect_right(self, to: SigningKey | Subject, **more: Any) -> SignedCertificate:
        """Let the owner allow a principal to be part of the network; as a broker it serves all types."""
        return self.grant(self.owner, to, self.network, Action.CONNECT, Action.SERVE, **more)

    def broker_right(
        self, to: SigningKey | Principal, by: str | SigningKey = "", **more: Any
    ) -> SignedCertificate:
        """Let the owner, or a domain, make a key its broker, which serves all types."""
        return self.grant(by or self.owner, to, self.network, *AS_BROKER, Action.SERVE, **more)

    def let(self, who: str, *actions: Action, **more: Any) -> Cast:
        """Return the cast with a right to the type more."""
        return replace(self, certificates=(*self.certificates, self.right(who, *actions, **more)))

    def domain(self, name: str, *brokers: str, invited_by: str = "") -> Cast:
        """Return the cast with brokers that may connect by a domain's word, and that by the owner's.

        Another domain may have invited it, by the right that it has from the owner itself.
        """
        keys = {who: key_of(who, self.seed) for who in (name, *brokers)} | dict(self.keys)
        cast = replace(self, keys=keys)
        given = [cast.connect_right(keys[invited_by or name], may_delegate=True)]
        if invited_by:
            actions = Action.CONNECT, Action.SERVE
            given.append(cast.grant(invited_by, name, self.network, *actions, may_delegate=True))
        wallets = {
            broker: (*given, cast.broker_right(keys[broker], by=name, comment=f"{name} to {broker}"))
            for broker in brokers
        }
        return replace(cast, wallets={**self.wallets, **wallets})

    def issued(self, comment: str, action: Action) -> SignedCertificate:
        """Return one certificate, by its comment and by what it grants."""
        (found,) = (
            one
            for one in self.certificates
            if one.certificate.comment == comment
            and isinstance(one.certificate, AuthorisationCertificate)
            and action in one.certificate.authority.actions
        )
        return found

    def without(self, *comments: str) -> tuple[SignedCertificate, ...]:
        """Return the certificates but for those with such comments."""
        return tuple(one for one in self.certificates if one.certificate.comment not in comments)

    # ------------------------------------------------------------ the type

    def defined(self, definition: TypeDefinition) -> Cast:
        """Return the cast with another definition of the owner's type."""
        return replace(self, definition=sign_definition(definition, self.owner))

    def sealed(self, sealing: Sealing | None) -> Cast:
        """Return the cast with a type that is sealed in this way."""
        return self.defined(replace(self.definition.definition, sealing=sealing))
