"""In which ways can the premises of a rule be met, by whom and with which values?

A slow and plain search: premises in the order of the text, each extending the
values found so far. Kinds are compared with values, so 1 never meets true.
Every row, certificate or membership that is read counts as one step, and the
search is given up when it has taken too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Final, TypeAlias, assert_never

from maia.credentials import Principal
from maia.credentials.appointments import AppointmentKind, Argument, argument_key, argument_kind
from maia.errors import Unavailable
from maia.events import Instant, PresentValue
from maia.policy.facts import inside_network, place_facts
from maia.predicates.language.parser import parse_predicate
from maia.predicates.meaning import admits
from maia.roles.memberships import (
    Ground,
    RoleMembership,
    World,
    certificate_support,
    fact_support,
    membership_support,
    place_support,
    places_in,
)
from maia.roles.policy import (
    ANYTHING,
    HOLDER,
    CertificatePremise,
    Condition,
    FactPremise,
    Literal,
    Parameter,
    PlacePremise,
    Policy,
    Premise,
    RolePremise,
    Special,
    Term,
    TimePremise,
    Variable,
)
from maia.roles.time_windows import is_within, window_end
from maia.roles.variables import as_value

STEPS_MAX: Final = 20_000

Binding: TypeAlias = Mapping[str, Argument]
"""The value of each variable so far."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to meet all premises: the values, what met each premise, and when the clock ends it."""

    binding: Binding
    grounds: tuple[Ground, ...] = ()
    clock_ends: Instant | None = None


@dataclass(slots=True)
class Search:
    """One search by one principal at one moment."""

    policy: Policy
    world: World
    holder: Principal
    now: Instant
    steps_max: int = STEPS_MAX
    address: str | None = None
    """Where the holder asks from, if that is known."""
    steps: int = field(default=0, init=False)

    def ways(
        self, premises: Sequence[Premise], conditions: Sequence[Condition], start: Binding
    ) -> Iterator[Way]:
        """Yield every way to meet all premises and conditions that agrees with `start`."""
        yield from (
            way
            for way in self._from(Way(start), premises, 0)
            if all(self._holds(condition, way.binding) for condition in conditions)
        )

    def _from(self, way: Way, premises: Sequence[Premise], position: int) -> Iterator[Way]:
        # As deep as a rule has premises, which the reader bounds.
        if position == len(premises):
            yield way
            return
        for longer in self._met(premises[position], position, way):
            yield from self._from(longer, premises, position + 1)

    def _met(self, premise: Premise, position: int, way: Way) -> Iterator[Way]:
        match premise:
            case TimePremise():
                yield from self._by_clock(premise, way)
            case PlacePremise():
                yield from self._by_place(premise, position, way)
            case FactPremise():
                yield from self._by_fact(premise, position, way)
            case CertificatePremise():
                yield from self._by_certificate(premise, position, way)
            case RolePremise():
                yield from self._by_membership(premise, position, way)
            case _:
                assert_never(premise)

    def _by_clock(self, premise: TimePremise, way: Way) -> Iterator[Way]:
        if is_within(premise.window, self.now):
            ends = window_end(premise.window, self.now) if premise.is_watched else None
            yield Way(way.binding, way.grounds, earliest(way.clock_ends, ends))

    def _by_place(self, premise: PlacePremise, position: int, way: Way) -> Iterator[Way]:
        here = place_facts(self.address)
        if any(admits(inside_network(ip_network(one)), here) for one in premise.networks):
            support = place_support(premise.networks)
            ground = Ground(position, support, premise.is_watched, name=" ".join(premise.networks))
            yield Way(way.binding, (*way.grounds, ground), way.clock_ends)

    def _by_fact(self, premise: FactPremise, position: int, way: Way) -> Iterator[Way]:
        parameters = self.policy.facts[premise.name].parameters
        wanted = [value_of(term, way.binding, self.holder) for term in premise.terms]
        for row in self.world.matching(premise.name, wanted):
            self._step()
            binding = bind(premise.terms, row, way.binding, self.holder)
            if binding is not None and _kinds_fit(row, parameters):
                support = fact_support(premise.name, row)
                ground = Ground(position, support, premise.is_watched, name=premise.name)
                yield Way(binding, (*way.grounds, ground), way.clock_ends)

    def _by_certificate(self, premise: CertificatePremise, position: int, way: Way) -> Iterator[Way]:
        declaration = self.policy.appointments[premise.name]
        kind = AppointmentKind.ROLE_MEMBERSHIP if declaration.is_role else AppointmentKind.APPOINTMENT
        issuers = self.policy.issuers(premise.name)
        held_by = self._holder(premise.held_by, way)
        for shown in self.world.appointments(declaration.called, kind=kind, holder=held_by):
            self._step()
            said = shown.certificate
            fits = said.kind is kind and said.name == declaration.called and said.issuer in issuers
            if not fits or not said.validity.contains(self.now):
                continue
            terms, values = (premise.held_by, *premise.terms), (said.holder, *said.parameters)
            binding = bind(terms, values, way.binding, self.holder)
            if binding is not None and _kinds_fit(values[1:], declaration.parameters):
                support = certificate_support(shown)
                ends, issuer = said.validity.not_after, said.issuer
                ground = Ground(position, support, premise.is_watched, ends, issuer, premise.name)
                yield Way(binding, (*way.grounds, ground), way.clock_ends)

    def _by_membership(self, premise: RolePremise, position: int, way: Way) -> Iterator[Way]:
        held_by = self._holder(premise.held_by, way)
        for member in self.world.memberships(premise.name, holder=held_by):
            self._step()
            if member.role != premise.name or not is_active(member, self.now):
                continue
            terms, values = (premise.held_by, *premise.terms), (member.principal, *member.arguments)
            binding = bind(terms, values, way.binding, self.holder)
            if binding is not None:
                support = membership_support(member)
                ground = Ground(position, support, premise.is_watched, member.until, name=premise.name)
                # What a role was activated from, whatever depends on it is used from.
                places = (replace(one, premise=position) for one in places_in(member.depends_on))
                yield Way(binding, (*way.grounds, ground, *places), way.clock_ends)

    def _holder(self, term: Term, way: Way) -> Principal | None:
        held_by = value_of(term, way.binding, self.holder)
        return held_by if isinstance(held_by, Principal) else None

    def _holds(self, condition: Condition, binding: Binding) -> bool:
        values = values_for(binding, holder=self.holder, now=self.now)
        predicate = parse_predicate(condition.text, condition.vocabulary, values)
        event = {
            attribute.uid: values[name] for name, attribute in condition.vocabulary.items() if name in values
        }
        return admits(predicate, event)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self.steps_max:
            raise Unavailable(
                "ROLES-SEARCH-TOO-LARGE",
                f"more than {self.steps_max} facts, certificates and memberships would have to be read",
            )


def is_active(member: RoleMembership, now: Instant) -> bool:
    """Return whether `now` lies inside the membership's own time."""
    return member.since <= now and (member.until is None or now <= member.until)


def value_of(term: Term, binding: Binding, holder: Principal) -> Argument | None:
    """Return the value of a term, or None if it has none yet."""
    match term:
        case Variable(name):
            return binding.get(name)
        case Literal(value):
            return value
        case Special():
            return holder if term is HOLDER else None
        case _:
            assert_never(term)


def bind(
    terms: Sequence[Term], values: Sequence[Argument], binding: Binding, holder: Principal
) -> Binding | None:
    """Return the values found so far and those that `terms` take from `values`; None if they disagree."""
    if len(terms) != len(values):
        return None
    found = dict(binding)
    for term, value in zip(terms, values, strict=True):
        known = value_of(term, found, holder)
        if isinstance(term, Variable) and known is None:
            found[term.name] = value
        elif term is not ANYTHING and (known is None or argument_key(known) != argument_key(value)):
            return None
    return found


def values_for(binding: Binding, *, holder: Principal, now: Instant) -> dict[str, PresentValue]:
    """Return what `$name` means in the predicates of a rule or grant."""
    return {name: as_value(value) for name, value in {**binding, "holder": holder, "now": now}.items()}


def earliest(*moments: Instant | None) -> Instant | None:
    """Return the first of some moments; None is never."""
    return min((moment for moment in moments if moment is not None), default=None)


def _kinds_fit(values: Sequence[Argument], parameters: Sequence[Parameter]) -> bool:
    return [argument_kind(value) for value in values] == [parameter.kind for parameter in parameters]
