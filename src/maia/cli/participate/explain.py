"""`maia explain`: why may this principal do this, or why not?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import need, opt
from maia.cli.inputs import AT, moment, network_named, read_certificates, read_constitutions, read_principal
from maia.cli.output import Answer, row, several
from maia.cli.participate.membership import TypeOptions, verified
from maia.cli.participate.subscribe import on_topics_text
from maia.cli.profile_option import how_to_get
from maia.cli.trust.grants import one_action
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.credentials import OnlineTest, Principal, SignedCertificate
    from maia.credentials.chains.reduction import BrokenChain
    from maia.events import AttributeUid, Instant, PresentValue
    from maia.policy import Evidence, Facts, View
    from maia.types import VerifiedType
    from maia.validity import Monitor, Once


_NO_CHAIN: Final = "POLICY-NO-CHAIN"


def explain(
    *,
    context: typer.Context,
    principal: str = need("Who asks: key or .pub file."),
    action: str | None = opt(
        "connect install publish subscribe extend manage.add …; default: publish and subscribe, or connect."
    ),
    credentials: list[Path] = need("Files, or folders of *.cert and *.quorum.", "--credentials", "-c"),
    meant: TypeOptions,
    network: str | None = opt("The network, for connect and install."),
    coordinator: str | None = opt("The coordinator of the network."),
    filter_text: str = opt(
        "A subscriber's filter, or a publisher's advertisement.", "--where", "--filter", default="true"
    ),
    audience: str = opt("Whose version of the reasons: owner or requester.", default="owner"),
    fact: list[str] | None = opt("Something that is true: 'on-duty=true', 'rate-minute=5'; may be repeated."),
    bounds: list[Path] | None = opt("Bounds that the broker sets: files as its `bounds` names."),
    requires: str = opt("What the other side requires of the principal: 'clearance >= 3'.", default="true"),
    identity: Path | None = opt("The principal's identity statement, for --requires."),
    at: str | None = AT,
) -> Answer:
    """Decide whether a principal may do something, and name the certificate, field and attribute.

    Those who must confirm the certificates are asked now; what cannot be asked is assumed, and said.

    Examples:
        maia explain LabResult --as dashboard.maia
        maia explain LabResult --as dashboard.maia --action subscribe --where 'value > 100'
        maia explain LabResult --as hospital --principal institute.pub --action subscribe
        maia explain --principal smith.pub --action subscribe -d numberplate.type --fact on-duty=true
          --where 'location == "Victoria"' --credentials certs/ --audience requester
        maia explain --principal anna.pub --action subscribe -d reports.type --credentials certs/
          --requires 'clearance >= 3' --identity anna.identity
    """
    from maia.config.bounds_file import read_bounds
    from maia.policy import Audience, Denial, Request, decide, gather_evidence
    from maia.predicates import parse_predicate
    from maia.profile.files import ORGANISATION_FILE
    from maia.types.definition import tree_meant

    is_typed = meant.named is not None or meant.definition is not None
    if action is None:
        found = {
            one: explain(
                context=context, principal=principal, action=one, credentials=credentials, meant=meant,
                network=network, coordinator=coordinator, filter_text=filter_text, audience=audience,
                fact=fact, bounds=bounds, requires=requires, identity=identity, at=at,
            )
            for one in (("publish", "subscribe") if is_typed else ("connect",))
        }  # fmt: skip
        for one, answer in found.items():
            answer.lines[0] = f"{one:<12} {answer.lines[0]}"
            answer.record["action"] = one
        return Answer(several("actions", found.values()), no=all(one.no for one in found.values()))
    if context.obj is not None and (context.obj.path / ORGANISATION_FILE).is_file():
        credentials = [*credentials, context.obj.path / "issued"]  # what it has granted to others
    now, quorums = moment(at), read_constitutions(credentials)
    who, wanted = read_principal(principal), one_action(action)
    if is_typed and (network is None or action not in ("connect", "install")):
        event_type = verified(meant.history(quorums), quorums, at=now)
        if meant.topic is not None:
            below, (_, topic) = action == "subscribe", tree_meant(meant.topic)
            filter_text = on_topics_text([topic], filter_text, event_type.name.name, below=below)
        interest = parse_predicate(filter_text, event_type.vocabulary)
        request = Request(who, wanted, event_type.name, event_type, interest)
    elif network is None or coordinator is None:
        raise BadInput(
            "INPUT-GRANT", "name the resource: TYPE, --definition FILE, or --network NAME with --coordinator"
        )
    else:
        request = Request(who, wanted, network_named(coordinator, network))
    if audience not in (known := {one.value: one for one in Audience}):
        raise BadInput("INPUT-GRANT", f"`{audience[:32]}` is no audience; give {' or '.join(known)}")
    reader = known[audience]
    pool = read_certificates(credentials)
    standing = AskedRight.of(pool, now) if at is None else AskedRight()
    now = moment(at)  # the lists of testers may have begun since they were asked
    evidence = gather_evidence(
        request, pool, at=now, bounds=read_bounds(bounds or ()), constitutions=quorums, standing=standing
    )
    decision = decide(request, evidence, _facts(fact or []), now)
    reasons = decision.explanation
    because = Answer(
        row("  because", reasons.lines(reader, _names(request.event_type)), reasons=reasons.records(reader))
    )
    if isinstance(decision, Denial):
        is_about_member = decision.code == _NO_CHAIN and meant.named is not None
        way = how_to_get(context.obj, action, str(meant.named)) if is_about_member else None
        said = row("", f"no [{decision.code}]", permitted=False, code=decision.code)
        return Answer(said, because, row("  way out", way), no=True)
    required, met = _required(requires, identity, request.principal, now)
    if not met:
        said = row("", "no [REFUSED-REQUIREMENT]", permitted=False, code="REFUSED-REQUIREMENT")
        return Answer(said, row("  because", required, requirement=required), because, no=True)
    until = "unbounded" if decision.until is None else str(decision.until)
    assumed = standing.assumed(evidence)
    return Answer(
        row("", f"yes, until {until}", permitted=True, until=until),
        *(_view(decision.view, request.event_type) if reader is Audience.OWNER else ()),
        row("  because", required),
        because,
        row("  assumed", assumed, **({"assumed": assumed} if assumed else {})),
    )


def _required(text: str, identity: Path | None, principal: Principal, now: Instant) -> tuple[list[str], bool]:
    """Return what a requirement asks of the principal, with what its statement says, and whether that is met.

    The statement's provider is whoever issued it: whether it is trusted is the broker's to say.
    """
    from maia.config.input_files import read_identity
    from maia.credentials.identity import IdentityTrust, pack_identity
    from maia.credentials.requirements import attributes_of_identity, is_met, parse_requirement
    from maia.predicates import attributes_of, format_predicate

    requirement = parse_requirement(text)
    said = None
    if identity is not None:
        signed = read_identity(identity)
        trust = IdentityTrust(signed.statement.community, frozenset({signed.statement.issuer}))
        said = trust.verified(pack_identity(signed), principal, now).statement
    attributes = attributes_of_identity(said)
    met = is_met(requirement, attributes)
    # What follows from two attributes is shown by the two.
    asked = sorted({one for uid in attributes_of(requirement) for one in uid.split(".")[::2]})
    if not asked:
        return [], met
    shown = {str(uid): value for uid, value in attributes.items()}
    values = [f"{uid} = {shown[uid]!r}" if uid in shown else f"{uid} is missing" for uid in asked]
    verdict = "met" if met else "not met"
    return [f"requirement {verdict}: {format_predicate(requirement)}", f"statement  {'; '.join(values)}"], met


@dataclass(frozen=True, slots=True)
class AskedRight:
    """What testers say of certificates now. Those that cannot be asked are taken to confirm them."""

    heard: Monitor | None = None
    """None: testers are not asked, since the question is about another moment."""
    silent: Mapping[Principal, str] = field(default_factory=dict)

    @classmethod
    def of(cls, pool: list[SignedCertificate], now: Instant) -> AskedRight:
        """Ask the testers of these certificates, where the certificates say."""
        import asyncio

        from maia.api.testers import BEGIN_S, ask_testers
        from maia.validity import Monitor

        fetched = asyncio.run(ask_testers(pool, now=now, within_s=BEGIN_S))
        heard = Monitor.of(fetched.statements, now)
        return cls(heard, {by: problem.message for by, problem in fetched.problems.items()})

    def check(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate, or None."""
        from maia.credentials.statements import CertificateRevoked

        if self.heard is None:
            return None
        tests = signed.certificate.validity.tests
        problem = self.heard.check(signed, at, once=[*once, *((signed.id, one.by) for one in tests)])
        return problem if isinstance(problem, CertificateRevoked) or all(map(self._answers, tests)) else None

    def assumed(self, evidence: Evidence) -> list[str]:
        """Return the tests that a verifier makes and that were not made here."""
        tests = dict.fromkeys(test for chain in evidence.chains for test in chain.validity.tests)
        return [
            f"{test.by} confirms the certificates ({test.kind.value})"
            + (f"; it cannot be asked now: {self.silent[test.by]}" if test.by in self.silent else "")
            for test in tests
            if not self._answers(test)
        ]

    def _answers(self, test: OnlineTest) -> bool:
        """Return whether a test was made: one-time answers are given to verifiers alone."""
        is_fetched = test.kind.value != "one-time" and bool(test.locations)
        return self.heard is not None and is_fetched and test.by not in self.silent


def _facts(said: list[str]) -> Facts:
    """Read facts as `name=value`, with the literals of the filter language."""
    from maia.policy import Facts
    from maia.predicates import Comparison, Operator, parse_predicate

    facts: dict[AttributeUid, PresentValue] = {}
    for text in said:
        found = parse_predicate(text)
        if not isinstance(found, Comparison) or found.operator is not Operator.EQ:
            raise BadInput("INPUT-GRANT", f"`{text[:64]}` is no fact such as `on-duty=true`")
        facts[found.uid] = found.literal
    return Facts(facts)


def _view(view: View, event_type: VerifiedType | None) -> Iterator[Answer]:
    from maia.credentials import AllAttributes
    from maia.expressions import format_rule
    from maia.expressions.summary_text import format_summary
    from maia.policy import shows
    from maia.policy.answers import is_answerable
    from maia.predicates import ALWAYS, format_predicate
    from maia.predicates.language.writer import format_literal

    names = _names(event_type)
    steps = [*view.on_publication, *(step for window in view.windows for step in window.transformations)]
    needed = "a secret or table of {} at the broker, or values are null (UNAVAILABLE-NO-SECRET)"
    keyed = dict.fromkeys(str(step.by) for step in steps if step.is_keyed())
    yield row("  needs", [needed.format(by) for by in keyed])
    sealing = None if event_type is None else event_type.sealing
    is_made = sealing is not None and not sealing.blinded  # for a right, where events are published
    without_key = [one.transformations and not (is_made and is_answerable(one)) for one in view.windows]
    if sealing is not None and without_key and all(without_key):
        yield row("  sealed", "this right brings a broker no key: read at a broker that has another one")
    for step in view.on_publication:
        written = "" if step.result is None else f"from {step.result.name}: "
        yield row("  transforms", f"{written}{'; '.join(format_rule(rule, names) for rule in step.rules)}")
    for window in view.windows:
        is_whole = isinstance(window.attributes, AllAttributes) and not window.transformations
        shown = "*" if is_whole else " ".join(sorted(names[uid] for uid in names if shows(window, uid)))
        yield row("  window", f"{shown}  where {format_predicate(window.admits, names)}")
        for step in window.transformations:
            into = "" if step.result is None else f"into {step.result.name}: "
            rules = "; ".join(format_rule(rule, names) for rule in step.rules)
            if step.summary is not None:
                every, per, assigned = format_summary(step.summary, names)
                rules = "; ".join((f"every {every}", *(f"per {one}" for one in per), *assigned))
            yield row("  transforms", f"{into}{rules}" if rules else None)
            if step.restriction != ALWAYS:
                yield row("  of these", f"where {format_predicate(step.restriction, names)}")
    forced = [f"{names.get(uid, uid)} = {format_literal(value)}" for uid, value in view.forced.items()]
    yield row("  forced", forced)


def _names(event_type: VerifiedType | None) -> dict[AttributeUid, str]:
    """Return the names of attributes in the version of the request."""
    return {} if event_type is None else {one.uid: one.name for one in event_type.attributes}
