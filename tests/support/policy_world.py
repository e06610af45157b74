"""An owner with types, a policy and people: what do members of its roles get, and how do they connect?

Rights are issued as the owner's server would issue them to members of the roles.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256

import maia
from maia.client.api.client import Client
from maia.clock import system_now
from maia.credentials import (
    Action,
    Authority,
    NetworkName,
    NetworkPattern,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TypeName,
    TypePattern,
    exact_name,
)
from maia.events import Attribute, AttributeUid, Kind
from maia.expressions import TransformationKeys
from maia.roles import Policy, parse_policy
from maia.roles.grants import possible_rights
from maia.testing import grant
from maia.types import SignedDefinition, TypeDefinition, VerifiedType, sign_definition, verify_definition


def keys_of(world: str, *names: str) -> tuple[SigningKey, ...]:
    return tuple(SigningKey.from_seed(sha256(f"{world} {name}".encode()).digest()) for name in names)


def type_of(owner: SigningKey, name: str, *attributes: tuple[str, Kind]) -> SignedDefinition:
    """Return a type whose attributes are numbered from 1."""
    listed = tuple(
        Attribute(said, AttributeUid(str(uid)), kind) for uid, (said, kind) in enumerate(attributes, start=1)
    )
    return sign_definition(TypeDefinition(TypeName(owner.principal, name, "0"), None, listed), owner)


@dataclass(frozen=True)
class PolicyWorld:
    """Who owns what, who may connect, and the policy by which the others have their rights."""

    owner: SigningKey
    network: NetworkName
    people: tuple[SigningKey, ...]
    definitions: tuple[SignedDefinition, ...]
    policy_text: str

    @property
    def secrets(self) -> TransformationKeys:
        key = self.owner.principal.key
        return TransformationKeys({key: sha256(b"a secret of " + key).digest()})

    def types(self) -> dict[str, VerifiedType]:
        return {
            one.definition.name.name: verify_definition(one, at=system_now(), previous=None)
            for one in self.definitions
        }

    def policy(self) -> Policy:
        """Return the policy, checked."""
        return parse_policy(
            self.policy_text, origin="the.policy", domain=self.owner.principal, types=self.types()
        )

    def issued(
        self, subject: SigningKey, authority: Authority, *, may_delegate: bool = False
    ) -> SignedCertificate:
        return grant(self.owner, subject, authority, may_delegate=may_delegate)

    def rights_of(self, role: str, who: SigningKey) -> list[SignedCertificate]:
        """Return the certificates that a member of a role without parameters gets."""
        rights = possible_rights(self.policy(), role, (), who.principal, system_now())
        return [self.issued(who, right.authority) for right in rights if right.authority is not None]

    def connecting(self) -> list[SignedCertificate]:
        """Return the rights of all people to connect; the first two of them are brokers."""
        pattern = NetworkPattern(self.network.owner, exact_name(self.network.name))
        actions = {Action.CONNECT, Action.SERVE}
        return [
            self.issued(who, Authority(pattern, frozenset(actions | ({Action.BROKER} if at < 2 else set()))))
            for at, who in enumerate(self.people)
        ]

    def publishing(self, who: SigningKey, definition: SignedDefinition) -> SignedCertificate:
        """Return a right to publish a type as it is written."""
        resources = TypePattern(self.owner.principal, exact_name(definition.definition.name.name), None)
        return self.issued(who, Authority(resources, frozenset({Action.PUBLISH})))

    def connected(
        self,
        who: SigningKey,
        address: str,
        credentials: Iterable[SignedCertificate],
        statements: Iterable[SignedStatement] = (),
    ) -> AbstractAsyncContextManager[Client]:
        return maia.connect(
            address,
            key=who,
            network=self.network,
            credentials=tuple(credentials),
            statements=tuple(statements),
            types=list(self.definitions),
            dial_again_s=0.05,
        )
