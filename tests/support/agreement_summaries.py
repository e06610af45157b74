"""Random worlds in which a policy transforms what is written, and a reader gets summaries of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from maia.credentials import (
    ALL_ATTRIBUTES,
    SignedCertificate,
    Transformation,
    TypeName,
    Validity,
    issue,
)
from maia.events import Attribute, AttributeUid, Kind, Value
from maia.expressions.summaries import Aggregate, Key, Measure, Summary
from maia.expressions.syntax import Call, Expression, Function, Rule, Take
from maia.predicates import ALWAYS, Comparison, Operator, Predicate
from maia.spark.governed.reader import Reader
from maia.testing import NetClient
from maia.types import TypeDefinition, VerifiedType, sign_definition, verify_definition
from maia.types.definition import TOPIC
from maia.wire.columns import columns_to_frame
from maia.wire.messages import Deliver
from support.agreement import THERE, World
from support.numberplate import NOW, READ, WRITE

AGGREGATES = {
    Kind.INT: (Aggregate.MIN, Aggregate.MAX, Aggregate.MEAN),
    Kind.FLOAT: (Aggregate.MIN, Aggregate.MAX, Aggregate.MEAN),
    Kind.TIMESTAMP: (Aggregate.MIN, Aggregate.MAX),
}


class SummarisingWorld(World):
    """What one seed makes, with a fourth reader that sees nothing but summaries."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(f"{seed}/summaries")  # noqa: S311 - test cases, not secrets
        super().__init__(seed)
        (step,) = self.right.certificate.authority.transformations
        assert step.summary is not None
        attributes = [Attribute(f"s-{uid}", uid, kind) for uid, kind in step.summary.kinds.items()]
        assert step.result is not None
        definition = TypeDefinition(step.result, None, tuple(attributes))
        self.shown_as: VerifiedType = verify_definition(sign_definition(definition, self._pito), at=NOW)
        self.wanted: Predicate = ALWAYS
        if self.chance.random() < 0.4:
            self.wanted = Comparison(AttributeUid("n"), Operator.GE, 2)
        self.summaries: list[tuple[tuple[str, str, Value], ...]] = []

    @property
    def common(self) -> dict[AttributeUid, Kind]:
        """Return the attributes of both versions."""
        one, other = (version.kinds for version in self.versions)
        return {uid: kind for uid, kind in one.items() if uid in other and uid != TOPIC.uid}

    def grant_to(self, to, action, shown, rule, validity) -> SignedCertificate:  # type: ignore[no-untyped-def]  # as above
        """Give the camera a right that transforms one attribute of what it writes."""
        plain = super().grant_to(to, action, shown, rule, validity)
        rules = self._rules_on_publication() if action is WRITE else ()
        if not rules:
            return plain
        authority = replace(
            plain.certificate.authority, transformations=(Transformation(self._pito.principal, rules),)
        )
        return issue(replace(plain.certificate, authority=authority), self._pito)

    def _rules_on_publication(self) -> tuple[Rule, ...]:
        uid, kind = self.chance.choice(sorted(self.common.items()))
        match kind:
            case Kind.STRING:
                return (Rule(uid, Call(Function.FIRST, Take(uid, kind), (1,))),)
            case Kind.INT:
                return (Rule(uid, Call(Function.BUCKET, Take(uid, kind), (10,))),)
            case Kind.FLOAT:
                return (Rule(uid, Call(Function.ROUND_TO, Take(uid, kind), (0.5,))),)
            case Kind.TIMESTAMP:
                return (Rule(uid, Call(Function.TRUNCATE, Take(uid, kind), ("day",))),)
        return ()

    @property
    def right(self) -> SignedCertificate:
        """Return the right to summaries, the same whenever it is asked for."""
        chance = Random(f"{self.seed}/right to summaries")  # noqa: S311 - as above
        plain = World.grant_to(
            self, self.key("summaries"), READ, ALL_ATTRIBUTES, ALWAYS, Validity(None, None)
        ).certificate
        kinds = self.versions[0].kinds
        keys = tuple(
            Key(AttributeUid(f"k-{uid}"), Take(uid, kind))
            for uid, kind in sorted(kinds.items())
            if chance.random() < 0.15
        )
        measures = [
            Measure(AttributeUid("n"), Aggregate.COUNT),
            Measure(AttributeUid("t"), Aggregate.PERIOD_START),
        ]
        for uid, kind in sorted(kinds.items()):
            for aggregate in AGGREGATES.get(kind, ()):
                is_stepped = aggregate is Aggregate.MEAN and kind is Kind.FLOAT
                value: Expression = Take(uid, kind)
                name = AttributeUid(f"{aggregate.value}-{uid}")
                measures.append(Measure(name, aggregate, value, 0.25 if is_stepped else None))
        least, every = chance.choice((1, 1, 2, 3)), chance.choice((5, 7, 20))
        summary = Summary(every, keys, tuple(measures), least, late_s=chance.choice((0, 3)))
        result = TypeName(self._pito.principal, f"agreement.Summary{self.seed}", "0")
        step = Transformation(self._pito.principal, (), result=result, summary=summary)
        return issue(replace(plain, authority=replace(plain.authority, transformations=(step,))), self._pito)

    def start_brokers(self) -> None:
        super().start_brokers()
        self.subscriber: NetClient = self._client("summaries", THERE, (self.right,))
        name = self.versions[0].name
        self.subscriber.subscribe(self.wanted, event_type=name, ref=1, definitions=self.definitions)
        assert self.subscriber.was_accepted(1), self.subscriber.heard

    def live(self) -> None:
        """Play the world to the end of its last period."""
        super().live()
        self.net.advance(60)
        for message in self.subscriber.all_heard(Deliver):
            frame = columns_to_frame(message.columns, message.rows, self.shown_as.kinds)
            self.summaries += [self.row(event) for event in frame.events()]

    def row(self, event: Mapping[AttributeUid, Value]) -> tuple[tuple[str, str, Value], ...]:
        return tuple((one.name, one.kind.name, event.get(one.uid)) for one in self.shown_as.attributes)

    @property
    def summary_reader(self) -> Reader:
        return Reader(self.key("summaries").principal, (self.right,))
