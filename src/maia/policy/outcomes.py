"""How is a decision explained, and how long does it hold?

`decide` finds out what is granted; here it becomes a permit or a denial with
reasons for both audiences. The owner reads every miss, the nearest first, and
every restriction behind a View. The requester reads its own nearest miss, or
what it may see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from maia.credentials.authority import ALL_ATTRIBUTES, Action
from maia.credentials.chains.errors import BrokenChain, CertificateExpired, CertificateNotYetValid
from maia.credentials.validity.period import Validity
from maia.credentials.validity.statements import (
    CertificateNotRevalidated,
    CertificateRevoked,
    CertificateStale,
    CertificateTestedOnce,
)
from maia.errors import BrokenCredential
from maia.events import AttributeUid, Instant
from maia.expressions.language import format_rule
from maia.expressions.summary_text import format_summary
from maia.policy.decision import (
    Denial,
    Explanation,
    GrantExpired,
    GrantNotYetValid,
    GrantRevoked,
    GrantStale,
    GrantTestedOnce,
    NoChain,
    Permit,
    PolicyRefusal,
    Reason,
    TypeNotValid,
    for_both,
    for_owner,
)
from maia.policy.evidence import Evidence
from maia.policy.facts import steady_clock
from maia.policy.filters import accessible
from maia.policy.grants import Grant, Miss, Opening, Step, authorities_in, kinds_of, names_of
from maia.policy.request import Request
from maia.policy.view import View, converts_to, kinds_shown
from maia.predicates.language.parser import format_predicate
from maia.predicates.language.writer import format_literal
from maia.predicates.syntax import ALWAYS, attributes_of

__all__ = ["denied", "left_out", "permitted", "stable_period", "type_miss"]

_ATTRIBUTES = "authority.attributes"
_NO_CHAIN = Reason("chain", "no certificates at hand lead from the owner of the resource to you")


def type_miss(request: Request, now: Instant) -> Miss | None:
    """Say whether the proof behind the event type has lapsed since it was made."""
    if request.event_type is None or request.event_type.validity.contains(now):
        return None
    reason = Reason("type", "the definition of the event type is not valid at this moment")
    return Miss(Step.RESTRICTION, TypeNotValid, for_both(reason))


def denied(
    misses: Sequence[Miss], request: Request, evidence: Evidence, now: Instant, *, cut: int = 0
) -> Denial:
    """Return the denial that the nearest miss explains; without a miss, no chain was there.

    `cut` is how many of the chains a View had no room for.
    """
    nearest_first = sorted((*misses, *map(_miss_of_broken, evidence.broken)), key=lambda miss: -miss.step)
    owner = tuple(reason for miss in nearest_first for reason in miss.explanation.owner)
    first_shown = next((miss for miss in nearest_first if miss.explanation.requester), None)
    kind = NoChain if first_shown is None else first_shown.kind
    requester = (_NO_CHAIN,) if first_shown is None else first_shown.explanation.requester
    explanation = Explanation(owner or (_NO_CHAIN,), requester)
    limit = left_out(evidence, cut)
    explanation += Explanation() if limit is None else for_both(limit)
    return Denial(kind, explanation, stable_period(request, evidence, now))


def permitted(
    view: View,
    openings: Sequence[Opening],
    request: Request,
    evidence: Evidence,
    now: Instant,
    *,
    cut: int = 0,
) -> Permit:
    """Return the permit for a View, valid as long as every grant and the type behind it.

    `cut` is how many of the chains the View had no room for.
    """
    ends = [opening.grant.validity for opening in openings]
    if request.event_type is not None:
        ends.append(request.event_type.validity)
    until = min((end.not_after for end in ends if end.not_after is not None), default=None)
    view = replace(view, until=until)
    parts = [_why(opening, request) for opening in openings]
    explanation = Explanation(
        tuple(reason for part in parts for reason in part.owner),
        tuple(reason for part in parts for reason in part.requester),
    )
    explanation += _what_is_seen(view, openings, request)
    limit = left_out(evidence, cut)
    explanation += Explanation() if limit is None else for_both(limit)
    return Permit(view, explanation, stable_period(request, evidence, now), limit)


def left_out(evidence: Evidence, cut: int = 0) -> Reason | None:
    """Say that a limit has kept grants from being counted, if one has: `cut` had no room in a View."""
    missing = evidence.left_out + cut
    if not missing:
        return None
    counted = len(evidence.chains) - cut
    sentence = f"only {counted} of at least {counted + missing} grants were counted, because of a limit here"
    return Reason("limit", sentence)


def stable_period(request: Request, evidence: Evidence, now: Instant) -> Validity:
    """Return the moments around `now` at which no certificate at hand begins or ends.

    A decision may be remembered within it: time changes nothing else. Where a
    condition asks for the time, it ends when its answer may become another.
    """
    periods = [chain.validity for chain in evidence.chains]
    if request.event_type is not None:
        periods.append(request.event_type.validity)
    begun = [period.not_before for period in periods if period.not_before is not None]
    ended = [period.not_after for period in periods if period.not_after is not None]
    since = [moment for moment in begun if moment <= now]
    since += [Instant(moment + 1) for moment in ended if moment < now]
    until = [moment for moment in ended if moment >= now]
    until += [Instant(moment - 1) for moment in begun if moment > now]
    steady = Validity(max(since, default=None), min(until, default=None))
    for chain in evidence.chains:
        if chain.authority.condition != ALWAYS:
            steady = steady.intersection(steady_clock(chain.authority.condition, now))
    return steady


def _miss_of_broken(broken: BrokenCredential) -> Miss:
    blamed, field = (broken.certificate, broken.field) if isinstance(broken, BrokenChain) else (None, None)
    owner = Reason("credential", f"a chain does not hold: {broken.message} [{broken.code}]", blamed, field)
    kind, for_requester = _validity_reason(broken)
    step = Step.ROOT if for_requester is None else Step.VALIDITY
    return Miss(step, kind, for_owner(owner, instead=for_requester))


def _validity_reason(broken: BrokenCredential) -> tuple[type[PolicyRefusal], Reason | None]:
    match broken:
        case CertificateExpired():
            return GrantExpired, Reason("validity", "a certificate that you rely on has expired")
        case CertificateNotYetValid():
            return GrantNotYetValid, Reason(
                "validity", "a certificate that you rely on is not yet valid, or a clock is wrong"
            )
        case CertificateRevoked() | CertificateNotRevalidated():
            return GrantRevoked, Reason("validity", "a certificate that you rely on was revoked")
        case CertificateStale():
            sentence = (
                "a certificate that you rely on has no valid statement for this moment: "
                "the server of its domain may not run"
            )
            return GrantStale, Reason("validity", sentence)
        case CertificateTestedOnce():
            sentence = "a certificate that you rely on must be confirmed anew for each request"
            return GrantTestedOnce, Reason("validity", sentence)
        case _:
            return NoChain, None


def _why(opening: Opening, request: Request) -> Explanation:
    grant = opening.grant
    if grant.chain is None or not grant.certificates:
        if request.principal != request.resource.owner:
            return for_both(Reason("public", "validity statements are public"))
        return for_both(Reason("owner", "the requester owns the resource"))
    length = len(grant.certificates)
    granted = f"`{request.action.value}` is granted by {_counted(length)} from {grant.chain.root}"
    explanation = for_both(Reason("chain", granted, grant.certificates[-1].id, "authority.actions"))
    return explanation + Explanation(owner=(*_terms(grant, request), *_bounds(opening, request)))


def _terms(grant: Grant, request: Request) -> Iterator[Reason]:
    """Yield, for the owner, what each certificate of a grant adds to its terms."""
    names = names_of(request)
    for identifier, part in authorities_in(grant):
        if part.attributes is not ALL_ATTRIBUTES:
            listed = _listed(sorted(part.attributes), names)
            yield Reason("attributes", f"attributes are limited to {listed}", identifier, _ATTRIBUTES)
        if part.restriction != ALWAYS:
            spoken = sorted(attributes_of(part.restriction))
            sentence = f"events are restricted to `{format_predicate(part.restriction, names)}`"
            only = spoken[0] if len(spoken) == 1 else None
            yield Reason("restriction", sentence, identifier, "authority.restriction", only)
        for step in part.transformations:
            rules = "; ".join(format_rule(rule, names) for rule in step.rules)
            if step.summary is not None:
                every, per, assigned = format_summary(step.summary, names)
                rules = "; ".join((f"every {every}", *(f"per {one}" for one in per), *assigned))
            become = "" if step.result is None else f" into `{step.result.name}`"
            sentence = f"events are transformed{become}: `{rules}`"
            yield Reason("transformation", sentence, identifier, "authority.transformations")
        if part.condition != ALWAYS:
            sentence = f"the condition `{format_predicate(part.condition)}` holds"
            yield Reason("condition", sentence, identifier, "authority.condition")


def _bounds(opening: Opening, request: Request) -> Iterator[Reason]:
    for rule in opening.bounds:
        bound = format_predicate(rule.filter, names_of(request))
        holder = rule.holder if isinstance(rule.holder, bytes) else None
        rule_name = f"{rule.bound.value} bound"
        yield Reason(rule_name, f"inside the {rule_name} `{bound}`", holder, "bound")


def _what_is_seen(view: View, openings: Sequence[Opening], request: Request) -> Explanation:
    explanation = Explanation()
    if view.windows and request.event_type is not None:
        explanation += _attributes(openings, request)
    for uid, value in sorted(view.forced.items()):
        explanation += for_owner(
            Reason("forced", f"the value is always `{format_literal(value)}`", attribute=uid)
        )
    if view.until is not None:
        explanation += for_both(Reason("until", f"this holds until {view.until}"))
    return explanation


def _attributes(openings: Sequence[Opening], request: Request) -> Explanation:
    """Name what is shown to the requester; to the owner, what is hidden as well."""
    names, declared = names_of(request), list(names_of(request))
    if any(converts_to(opening.window) for opening in openings):
        declared = sorted({uid for one in openings for uid in kinds_shown(one.window, kinds_of(request))})
        names = {}
    shown = [uid for uid in declared if accessible(uid, request, openings)]
    hidden = [uid for uid in declared if uid not in shown]
    owner = f"the requester may {_verb(request)} {_listed(shown, names)}"
    owner += f" and not {_listed(hidden, names)}" if hidden else ""
    requester = f"you may {_verb(request)} {_listed(shown, names)}"
    return for_owner(Reason("attributes", owner), instead=Reason("attributes", requester))


def _verb(request: Request) -> str:
    return "write" if request.action is Action.PUBLISH else "read"


def _counted(certificates: int) -> str:
    return "one certificate" if certificates == 1 else f"a chain of {certificates} certificates"


def _listed(uids: Sequence[AttributeUid], names: Mapping[AttributeUid, str]) -> str:
    return ", ".join(f"`{names.get(uid, uid)}`" for uid in uids) or "nothing"
