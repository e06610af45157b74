"""Who rests on which certificate: exactly those who said so and are still here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maia.broker.rights.validity import DependencyIndex
from maia.wire.effects import LinkId

LINKS = st.integers(min_value=-3, max_value=5).map(LinkId)
WATCHED = st.frozensets(st.sampled_from([bytes([number]) * 32 for number in range(8)]), max_size=4)
STEPS = st.lists(st.tuples(LINKS, st.none() | WATCHED), max_size=40)


@given(STEPS, WATCHED)
def test_it_agrees_with_a_plain_list_of_pairs(steps, asked):
    dependencies, pairs = DependencyIndex(), set()
    for link, watched in steps:
        if watched is None:
            dependencies.forget(link)
            pairs = {(one, certificate) for one, certificate in pairs if one != link}
        else:
            dependencies.note(link, watched)
            pairs |= {(link, certificate) for certificate in watched}
    assert dependencies.links_on(asked) == tuple(
        sorted({one for one, certificate in pairs if certificate in asked})
    )
    assert len(dependencies) == len({certificate for _, certificate in pairs})
    assert all((one in dependencies) == any(certificate == one for _, certificate in pairs) for one in asked)


def test_ten_thousand_links_are_not_looked_at_for_one():
    dependencies = DependencyIndex()
    for number in range(10_000):
        dependencies.note(LinkId(number), frozenset({b"all", b"%d" % number}))
    assert dependencies.links_on([b"77"]) == (77,)
    assert len(dependencies.links_on([b"all"])) == 10_000
