"""What should an access control service hold after some acts? Sets, looked through again and again.

The model knows the policy of `support.access_control` by heart: who may track
which plate, what each role is watched for, what each grants. It never looks at
how the service keeps or finds anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Order:
    """A court order as the model knows it."""

    id: bytes
    holder: object
    case: str
    plate: str
    ends: int


@dataclass(frozen=True)
class Member:
    """A membership that the service reported, and what the policy says it is watched for."""

    id: bytes
    certificate: bytes
    principal: object
    role: str
    arguments: tuple
    watched: frozenset
    until: int


@dataclass(frozen=True)
class Right:
    """A right that the service reported."""

    id: bytes
    certificate: object
    membership: bytes
    principal: object
    grants_location: bool
    until: int


@dataclass
class Model:
    """Everything that is so."""

    now: int
    facts: set = field(default_factory=set)
    orders: dict = field(default_factory=dict)
    revoked_orders: set = field(default_factory=set)
    on_record: set = field(default_factory=set)
    has_supervisors: bool = True
    has_tracking: bool = True
    members: dict = field(default_factory=dict)
    rights: dict = field(default_factory=dict)
    gone: dict = field(default_factory=dict)
    """Every id that was taken back, with the moment until which its certificate would have held."""

    # ------------------------------------------------------------ what can be

    def valid_orders(self, principal, shown) -> set[Order]:
        """The orders that count for somebody: shown now or on record, neither over nor revoked."""
        return {
            order
            for order in self.orders.values()
            if order.holder == principal
            and (order.id in shown or order.id in self.on_record)
            and order.id not in self.revoked_orders
            and order.ends >= self.now
        }

    def expected_roles(self, principal, shown) -> set[tuple]:
        """Every role that a login must bring."""
        if ("detective", principal) not in self.facts:
            return set()
        plates = {
            order.plate
            for order in self.valid_orders(principal, shown)
            if ("case_assignment", principal, order.case) in self.facts
        }
        found = {("detective_on_duty",)} | {("np_tracker", plate) for plate in plates}
        return found | ({("supervisor", plate) for plate in plates} if self.has_supervisors else set())

    # ------------------------------------------------------------ what is

    def logged_in(self, wallet) -> None:
        """Take in what a login brought."""
        for one in wallet.memberships:
            member = self._member(one)
            self.members[member.id] = member
            self.on_record |= {item[1] for item in member.watched if item[0] == "order"}
        for right in wallet.issued:
            said = right.certificate.certificate
            self.rights[right.id] = Right(
                right.id,
                right.certificate,
                right.membership,
                said.subject,
                not said.may_delegate,
                right.until,
            )

    def _member(self, one) -> Member:
        said = one.membership
        principal = said.principal
        watched: set = set()
        if said.role == "detective_on_duty":
            watched = {("fact", ("detective", principal))}
        elif said.role == "np_tracker":
            # By which order is the engine's choice; everything else follows from it.
            (order,) = [
                self.orders[ground.support.id]
                for ground in said.depends_on
                if ground.support.id in self.orders
            ]
            watched = {
                ("order", order.id),
                ("fact", ("detective", principal)),
                ("fact", ("case_assignment", principal, order.case)),
            }
        else:
            watched = {("member", ground.support.id) for ground in said.depends_on}
        end = said.until if said.until is not None else 1 << 62
        return Member(
            said.id, one.certificate.id, principal, said.role, said.arguments, frozenset(watched), end
        )

    def active(self) -> dict[bytes, Member]:
        """The memberships whose time is not over."""
        return {one.id: one for one in self.members.values() if one.until >= self.now}

    def standing(self) -> dict[bytes, Right]:
        """The rights whose time is not over."""
        return {one.id: one for one in self.rights.values() if one.until >= self.now}

    # ------------------------------------------------------------ what falls

    def settle(self) -> None:
        """Take away, over and over, whatever no longer stands."""
        while True:
            fallen = [one for one in self.members.values() if not all(map(self._holds, one.watched))]
            fallen += [one for one in self.members.values() if not self._is_in_policy(one)]
            for one in fallen:
                self.end(one.id)
            if not fallen:
                break
        for right in list(self.rights.values()):
            if right.membership not in self.members or (right.grants_location and not self.has_tracking):
                self.take(right.id)

    def end(self, member: bytes) -> None:
        """End one membership."""
        one = self.members.pop(member, None)
        if one is not None:
            self.gone[one.certificate] = one.until
            self.ended = True

    def take(self, right: bytes) -> None:
        """Take back one right."""
        one = self.rights.pop(right)
        self.gone[one.id] = one.until

    def _holds(self, item) -> bool:
        sort, what = item
        if sort == "fact":
            return what in self.facts
        if sort == "order":
            return what not in self.revoked_orders
        # A membership that is over has not been lost: what rests on it is over too.
        return what in self.members

    def _is_in_policy(self, one: Member) -> bool:
        return self.has_supervisors or one.role != "supervisor"
