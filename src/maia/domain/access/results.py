"""What does the access control service answer?

Every act and every question of `AccessControl` returns one of these values.
Nothing here is decided: the commands and the HTTP interface print them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from maia.credentials import Action, Principal, SignedCertificate
from maia.credentials.appointments import SignedAppointment
from maia.credentials.statements import SignedStatement
from maia.domain.access.settings import AccessLimits
from maia.errors import BadInput
from maia.events import AttributeUid, Instant
from maia.policy import View
from maia.roles import RoleMembership
from maia.types import SignedDefinition

_CURSOR_MAX: Final = 128
_Row = TypeVar("_Row")


class AdminAct(Enum):
    """What an administrator does, as the topic of the domain's key and the action that allow it."""

    CHANGE_POLICY = ("/admin/policy", Action.PUBLISH)
    READ_POLICY = ("/admin/policy", Action.SUBSCRIBE)
    CHANGE_APPOINTMENTS = ("/admin/appointments", Action.PUBLISH)
    READ_APPOINTMENTS = ("/admin/appointments", Action.SUBSCRIBE)
    CHANGE_FACTS = ("/admin/facts", Action.PUBLISH)
    READ_FACTS = ("/admin/facts", Action.SUBSCRIBE)
    CHANGE_RIGHTS = ("/admin/rights", Action.PUBLISH)
    READ_RIGHTS = ("/admin/rights", Action.SUBSCRIBE)
    READ_REGISTER = ("/admin/register", Action.SUBSCRIBE)
    CHANGE_REGISTER = ("/admin/register", Action.PUBLISH)
    READ_AUDIT = ("/admin/audit", Action.SUBSCRIBE)
    STATE_LEDGER = ("/admin/ledgers", Action.PUBLISH)
    CHANGE_SUBJECTS = ("/admin/subjects", Action.PUBLISH)
    READ_SUBJECTS = ("/admin/subjects", Action.SUBSCRIBE)
    CHANGE_TRUST = ("/admin/trust", Action.PUBLISH)
    READ_TRUST = ("/admin/trust", Action.SUBSCRIBE)
    CHANGE_TPM = ("/admin/tpm", Action.PUBLISH)
    READ_TPM = ("/admin/tpm", Action.SUBSCRIBE)
    READ_NETWORK = ("/admin/network", Action.SUBSCRIBE)
    """Asked by the console before it shows brokers and links; the domain itself has no such page."""

    @property
    def topic(self) -> str:
        return self.value[0]

    @property
    def action(self) -> Action:
        return self.value[1]

    @property
    def right(self) -> str:
        return f"{self.action.value} {self.topic}"

    @classmethod
    def named(cls, right: str) -> AdminAct:
        """Return the act for a right, written `ACTION TOPIC`."""
        action, topic = right.split()
        return cls((topic, Action(action)))


@dataclass(frozen=True, slots=True)
class Page(Generic[_Row]):
    """Some rows of a long answer; hand `after` back for the next ones. None: there are no more.

    A page may be short, or empty, and still not be the last one.
    """

    rows: tuple[_Row, ...]
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Revoked:
    """What an act revoked. The caller publishes `statement`, and answers when that is done.

    `ids` are certificates (rights, appointments and role memberships) that the
    domain has revoked; `memberships` ended, in the order of the cascade.
    Where nothing was revoked there is no statement. Where a list has no more
    room, there is none either: `is_silent` is then true and every right of
    this domain goes stale when the present list ends. `facts` are those that
    conditions of this domain ask for, where the act has changed them. Without
    `is_news` there was nothing to take away: what was retracted did not hold.

    `still_open` are certificates that demand no test: a verifier that does not
    receive the statement accepts them up to that moment (None: for ever). Every
    other one is refused everywhere when the present lists end, at `closes_at`.
    """

    ids: tuple[bytes, ...] = ()
    memberships: tuple[RoleMembership, ...] = ()
    statement: SignedStatement | None = None
    is_silent: bool = False
    facts: SignedStatement | None = None
    is_news: bool = True
    still_open: tuple[tuple[bytes, Instant | None], ...] = ()
    closes_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy in force: number, digest, text, who loaded it, and what ended with the one before.

    With `is_unchanged` it was loaded once more, and had been in force already.
    """

    version: int
    digest: bytes
    text: str = field(repr=False)
    loaded_by: Principal
    loaded_at: Instant
    revoked: Revoked = field(default_factory=Revoked)
    is_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Activated:
    """A role that became, or already was, active, and the certificate that says so."""

    membership: RoleMembership
    certificate: SignedAppointment


@dataclass(frozen=True, slots=True)
class IssuedRight:
    """A valid right: its certificate, and the chain from the owner to it, itself included."""

    certificate: SignedCertificate
    chain: tuple[SignedCertificate, ...]
    membership: bytes | None
    rule: str

    @property
    def id(self) -> bytes:
        return self.certificate.id

    @property
    def until(self) -> Instant | None:
        """Return the last moment at which the certificate holds."""
        return self.certificate.certificate.validity.not_after


@dataclass(frozen=True, slots=True)
class Withheld:
    """A right that a rule grants and that the domain cannot pass on itself, why, and what mends it."""

    rule: str
    code: str
    right: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Wallet:
    """What a principal carries away from a login; to be asked for again before `renew_before`."""

    principal: Principal
    memberships: tuple[Activated, ...]
    issued: tuple[IssuedRight, ...]
    chains: tuple[SignedCertificate, ...]
    """Every certificate of every chain, once."""
    statements: tuple[SignedStatement, ...]
    """The present list of the domain, so that the first verifier need not wait for the next."""
    renew_before: Instant | None
    withheld: tuple[Withheld, ...] = ()
    types: tuple[SignedDefinition, ...] = ()
    """Every version of the types that rights are about."""


class EntryKind(Enum):
    """How a right came into the register."""

    ISSUED = "issued"
    DELEGATED = "delegated"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class RegisterEntry:
    """One line of the register: a certificate, where it came from, and whether it was revoked."""

    kind: EntryKind
    certificate: SignedCertificate
    membership: bytes | None
    rule: str
    registered_at: Instant
    revoked_at: Instant | None
    reason: str


@dataclass(frozen=True, slots=True)
class Holder:
    """Who can do what was asked about: by which chains, seeing what, until when.

    With `is_conditional` a chain is there, under a condition that a broker
    asks at the moment of use and that does not hold by the clock alone; there
    is no view then.
    """

    principal: Principal
    view: View | None = field(repr=False)
    until: Instant | None
    chains: tuple[tuple[SignedCertificate, ...], ...]
    """Empty for the owner, who needs none."""
    is_conditional: bool = False
    may_pass_on: bool = False
    """It may let others: this register knows whom as far as that was registered here."""


@dataclass(frozen=True, slots=True)
class Ability:
    """What a member of a role would be able to do with one event type or topic, by which rule."""

    rule: str
    action: Action
    resource: str
    attributes: tuple[AttributeUid, ...] | None
    """None: all of them."""
    view: View | None = field(repr=False)
    denial: str | None
    """The code of the kernel's refusal, where the domain itself cannot pass the right on."""
    restriction: str | None = None
    """The restriction as the policy writes it, where facts decide about values in it; no view then."""


def page_limit(limit: int, limits: AccessLimits) -> int:
    """Return the size of a page; refuse one that is none."""
    if not 1 <= limit <= limits.page:
        raise BadInput("INPUT-PAGE", f"a page has 1 to {limits.page} rows")
    return limit


def cursor_number(after: str | None) -> int | None:
    if after is None:
        return None
    if not (after.isascii() and after.isdecimal() and len(after) <= 19):
        raise BadInput("INPUT-PAGE", "this cursor is none of ours")
    return min(int(after), (1 << 63) - 1)


def cursor_bytes(after: str | None) -> bytes | None:
    """Return the key after which a page begins."""
    if after is None:
        return None
    try:
        return bytes.fromhex(after[:_CURSOR_MAX])
    except ValueError:
        raise BadInput("INPUT-PAGE", "this cursor is none of ours") from None
