"""Which bytes is a membership in the store?

Nobody signs these bytes and nobody sends them; the domain writes them and
reads them back after a restart, with everything that the membership rests on.
"""

from __future__ import annotations

from typing import Final

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.credentials import principal_from_bytes
from maia.credentials.arguments import argument_from_expression, argument_to_expression
from maia.domain.access.refusals import DomainStoreUnavailable
from maia.errors import MaiaError
from maia.events import Instant
from maia.roles import Ground, RoleMembership, Support, SupportKind

__all__ = ["membership_from_bytes", "membership_to_bytes", "support_key"]

_LIMITS: Final = Limits(size_max=1 << 20, depth_max=8, atom_max=1 << 14)
_NEVER: Final = b"never"


def membership_to_bytes(membership: RoleMembership) -> bytes:
    """Write a membership with its grounds."""
    return write_canonical(
        (
            membership.id,
            membership.principal.key,
            membership.role.encode(),
            tuple(map(argument_to_expression, membership.arguments)),
            membership.rule.encode(),
            tuple(map(_ground_to_expression, membership.rests_on)),
            _moment(membership.since),
            _moment(membership.until),
        )
    )


def membership_from_bytes(data: bytes) -> RoleMembership:
    """Read a membership that was written here."""
    try:
        match read_canonical(data, _LIMITS):
            case (
                bytes(identifier),
                bytes(principal),
                bytes(role),
                tuple(arguments),
                bytes(rule),
                tuple(grounds),
                bytes(since),
                bytes(until),
            ):
                return RoleMembership(
                    identifier,
                    principal_from_bytes(principal),
                    role.decode(),
                    tuple(map(argument_from_expression, arguments)),
                    rule.decode(),
                    tuple(map(_ground_from_expression, grounds)),
                    Instant(int(since)),
                    _moment_from(until),
                )
    except (MaiaError, ValueError) as problem:
        raise DomainStoreUnavailable("a membership in the store cannot be read") from problem
    raise DomainStoreUnavailable("a membership in the store cannot be read")


def support_key(support: Support) -> bytes:
    """Return what a support is found by."""
    return support.kind.value.encode() + b" " + support.id


def _ground_to_expression(ground: Ground) -> SExpression:
    support = ground.support
    return (
        b"%d" % ground.premise,
        (support.kind.value.encode(), support.id, support.shown.encode()),
        b"1" if ground.is_watched else b"0",
        _moment(ground.until),
        b"" if ground.issuer is None else ground.issuer.key,
        ground.name.encode(),
    )


def _ground_from_expression(expression: SExpression) -> Ground:
    match expression:
        case (
            bytes(premise),
            (bytes(kind), bytes(identifier), bytes(shown)),
            bytes(watched),
            bytes(until),
            bytes(issuer),
            bytes(name),
        ):
            return Ground(
                int(premise),
                Support(SupportKind(kind.decode()), identifier, shown.decode()),
                watched == b"1",
                _moment_from(until),
                principal_from_bytes(issuer) if issuer else None,
                name.decode(),
            )
    raise ValueError("a ground in the store cannot be read")


def _moment(moment: Instant | None) -> bytes:
    return _NEVER if moment is None else b"%d" % moment


def _moment_from(moment: bytes) -> Instant | None:
    return None if moment == _NEVER else Instant(int(moment))
