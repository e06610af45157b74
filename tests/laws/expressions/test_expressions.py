"""Expressions: total, typed, one form in bytes, one in text; and composed transformations are associative."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from maia.canonical import read_canonical, write_canonical
from maia.credentials import ALL_ATTRIBUTES, Action, AnyResource, Authority, TypePattern, composed, exact_name
from maia.events import Attribute, AttributeUid, Kind, kind_of, vocabulary_of
from maia.expressions import (
    Take,
    format_rule,
    parse_rule,
    rules_from_expressions,
    rules_to_expressions,
    value_of,
)
from maia.expressions.summary_text import (
    format_summary,
    parse_summary,
    summary_from_expression,
    summary_to_expression,
)
from maia.expressions.syntax import expressions_in
from maia.policy.view import PublicationRefused, View, Window, kinds_shown, see, shape, shows, summarised
from maia.predicates import ALWAYS, Comparison, Operator, admits
from maia.predicates.syntax import mistyped
from maia.views import to_python
from maia.views.plan import ViewSummarises
from support.summary_cases import (
    CLOSED_AT,
    SUMMARISED,
    random_summarising_view,
    random_summary,
    summary_batch,
)
from support.view_cases import (
    ASKED,
    ISSUER,
    KEYS,
    STORED,
    random_attributes,
    random_event,
    random_expression,
    random_predicate,
    random_rule,
    random_transformation,
)

pytestmark = pytest.mark.laws
_DECIMAL = vocabulary_of([Attribute("lon", AttributeUid("lon"), Kind.FLOAT)])
seeds = st.integers(0, 2**64 - 1).map(Random)
KINDS = {uid: STORED.get(uid, Kind.STRING) for uid in ASKED}
NAMES = {uid: f"a_{uid}" for uid in ASKED}
VOCABULARY = vocabulary_of(Attribute(NAMES[uid], uid, kind) for uid, kind in KINDS.items())


@given(seeds)
def test_every_expression_has_a_value_of_its_kind_or_none_for_every_event(random: Random) -> None:
    kind = random.choice(list(Kind))
    expression, event = random_expression(random, kind, depth=4), random_event(random, 0)
    found = value_of(expression, event, KEYS.of(ISSUER.principal.key, b"r" * 32))
    assert found is None or kind_of(found) is kind


@given(seeds)
def test_what_is_signed_is_what_is_applied(random: Random) -> None:
    rules = tuple(random_rule(random) for _ in range(3) if random.random() < 0.9)
    written = write_canonical(rules_to_expressions(rules))
    read = read_canonical(written)
    assert isinstance(read, tuple)
    assert rules_from_expressions(read) == rules
    assert write_canonical(rules_to_expressions(rules_from_expressions(read))) == written


@given(seeds)
def test_what_is_written_for_people_reads_back(random: Random) -> None:
    rule = random_rule(random)
    inside = () if rule.value is None else expressions_in(rule.value)
    # A text speaks of attributes by the kinds that they have.
    assume(all(one.kind is KINDS[one.uid] for one in inside if isinstance(one, Take)))
    assume(mistyped(rule.condition, KINDS) is None)
    assert parse_rule(format_rule(rule, NAMES), VOCABULARY) == rule


def random_authority(random: Random) -> Authority:
    resources = TypePattern(ISSUER.principal, exact_name("Sighting"), None)
    steps = (random_transformation(random),) if random.random() < 0.6 else ()
    restriction = random_predicate(random, depth=1) if random.random() < 0.5 else ALWAYS
    actions = frozenset({Action.SUBSCRIBE})
    return Authority(resources, actions, random_attributes(random), restriction, transformations=steps)


def shown(authority: Authority | None, event: dict) -> dict | None:
    if authority is None:
        return None
    window = Window(authority.restriction, authority.attributes, authority.transformations)
    return see(View((window,), recipient=b"r" * 32), event, KEYS)


@given(seeds)
def test_a_chain_shows_the_same_however_it_is_put_together(random: Random) -> None:
    one, two, three = (random_authority(random) for _ in range(3))
    first, last = composed(one, two), composed(two, three)
    left = None if first is None else composed(first, three)
    right = None if last is None else composed(one, last)
    for row in range(5):
        event = random_event(random, row)
        assert shown(left, event) == shown(right, event)


@given(seeds)
def test_a104_a_later_link_sees_only_what_the_link_before_it_shows(random: Random) -> None:
    """A93, A104: a delegated right is a function of what the links before it show, transformed or not.

    Two events of which they show the same are shown alike by every right that is delegated from it: neither
    a restriction nor an expression of a later certificate can tell them apart.
    """
    before = random_authority(random)
    after = random_authority(random)
    whole = composed(before, after)
    for row in range(5):
        event = random_event(random, row)
        outcome = shown(before, event)
        through = None if outcome is None else shown(after, outcome)
        # The resources are the same, so nothing else could be in between.
        assert whole is None or shown(whole, event) == through


def published(authority: Authority | None, event: dict) -> dict | None:
    """Return what becomes of an event that a holder of this right to publish writes; None for nothing."""
    if authority is None:
        return None
    window = Window(authority.restriction, authority.attributes)
    view = View((window,), recipient=b"r" * 32, on_publication=authority.transformations)
    try:
        return shape(view, event, KEYS)
    except PublicationRefused:
        return None


@given(seeds)
def test_a_delegates_events_pass_through_the_transformations_of_all_links(random: Random) -> None:
    """On publication the last link is applied first, and the terms of all links are about the outcome."""
    one, two, three = (
        replace(random_authority(random), actions=frozenset({Action.PUBLISH})) for _ in range(3)
    )
    first, last = composed(one, two), composed(two, three)
    left = None if first is None else composed(first, three)
    right = None if last is None else composed(one, last)
    for row in range(5):
        event = random_event(random, row)
        assert published(left, event) == published(right, event)
        if first is None:
            continue
        # What the delegate writes becomes what its issuer could have written in place of it ...
        bare = replace(two, attributes=ALL_ATTRIBUTES, restriction=ALWAYS)
        made = published(bare, event)
        whole = published(first, event)
        by_issuer = None if made is None else published(one, made)
        if whole is not None:
            assert by_issuer is not None
            assert whole.items() <= by_issuer.items()
        # ... and nothing is published that a term of either link excludes.
        if by_issuer is not None and admits(two.restriction, by_issuer) and two.attributes is ALL_ATTRIBUTES:
            assert whole == by_issuer


@given(seeds)
def test_a_summary_that_is_signed_or_written_is_the_summary_that_is_applied(random: Random) -> None:
    summary = random_summary(random)
    written = write_canonical(summary_to_expression(summary))
    assert summary_from_expression(read_canonical(written)) == summary
    inside = (one for rule in summary.inputs if rule.value is not None for one in expressions_in(rule.value))
    # A text speaks of attributes by the kinds that they have.
    assume(all(one.kind is KINDS[one.uid] for one in inside if isinstance(one, Take)))
    assigned = {one.uid: one.name for one in SUMMARISED}
    every, per, assignments = format_summary(summary, NAMES, assigned)
    assert parse_summary(every, per, assignments, VOCABULARY, vocabulary_of(SUMMARISED)) == summary


@given(seeds)
def test_a93_a_later_link_sees_only_what_a_summary_shows(random: Random) -> None:
    """A93: behind a summary, a delegated right is a function of the derived events, and of nothing else."""
    view = replace(random_summarising_view(random), interest=ALWAYS)
    (window,) = view.windows
    actions = frozenset({Action.SUBSCRIBE})
    resources = TypePattern(ISSUER.principal, exact_name("Sighting"), None)
    before = Authority(resources, actions, window.attributes, window.admits, ALWAYS, window.transformations)
    uids = frozenset(random.sample([one.uid for one in SUMMARISED], 8))
    rule = Comparison(AttributeUid("n"), Operator.GE, random.choice((1, 2, 3)))
    after = Authority(resources, actions, uids, rule)
    whole = composed(before, after)
    assert whole is not None
    batch = summary_batch(random.randrange(10**9), views=0)
    events = list(zip(batch.moments, batch.events, strict=True))

    def shown(authority: Authority) -> list:
        one = Window(authority.restriction, authority.attributes, authority.transformations)
        return summarised(replace(view, windows=(one,)), events, closed_at=CLOSED_AT, keys=KEYS)

    plain = View((Window(after.restriction, after.attributes),))
    outcome = [(start, see(plain, event, KEYS)) for start, event in shown(before)]
    assert shown(whole) == [one for one in outcome if one[1] is not None]
    # One event by itself shows nothing, to any executor and in any part of a View.
    assert all(see(view, event, KEYS) is None for event in batch.events)
    with pytest.raises(ViewSummarises):
        to_python(view)


@given(seeds)
def test_what_a_window_shows_is_what_it_says_it_shows(random: Random) -> None:
    authority = random_authority(random)
    window = Window(authority.restriction, authority.attributes, authority.transformations)
    event = random_event(random, 0)
    seen = see(View((window,), recipient=b"r" * 32), event, KEYS) or {}
    kinds = kinds_shown(window, KINDS)
    for uid, value in seen.items():
        assert shows(window, uid)
        assert kinds[uid] is kind_of(value)


def test_a_blanket_resource_takes_no_transformation() -> None:
    from maia.credentials import BadAuthority, authority_to_expression

    steps = (random_transformation(Random(1)),)  # noqa: S311 - a test case
    actions = frozenset({Action.SUBSCRIBE})
    for resources, allowed in ((AnyResource(), actions), (None, actions | {Action.PUBLISH})):
        found = resources or TypePattern(ISSUER.principal, exact_name("Sighting"), None)
        with pytest.raises(BadAuthority):
            authority_to_expression(Authority(found, allowed, transformations=steps))


@given(st.integers(-(10**9), 10**9), st.integers(0, 4), st.sampled_from(("round_to", "bucket")))
def test_what_is_rounded_to_decimals_has_no_more_of_them(whole: int, decimals: int, function: str) -> None:
    step = 10.0**-decimals
    rule = parse_rule(f"lon := {function}(lon, {step!r})", _DECIMAL)
    assert rule.value is not None
    found = value_of(rule.value, {AttributeUid("lon"): whole * step})
    assert isinstance(found, float)
    assert found == float(f"{found:.{decimals}f}")
