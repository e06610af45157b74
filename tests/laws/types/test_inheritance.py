"""The verifier of sub-types agrees with the plain reference in every small world."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.credentials.certificate import Validity
from maia.credentials.names import FIRST_VERSION, TypeName
from maia.errors import MaiaError
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.types import (
    Sealing,
    SealingLevel,
    SignedDefinition,
    TypeDefinition,
    definition_from_bytes,
    definition_to_bytes,
    sign_definition,
    verify_definition,
)
from reference.inheritance import PlainType, lineage, problems
from support.types import CCS, MET, NOON, PITO, extend

pytestmark = pytest.mark.laws

PEOPLE = {"pito": PITO, "met": MET, "ccs": CCS}
NOW, MINUTE = 10, 60_000_000

NAMES = st.tuples(st.sampled_from(tuple(PEOPLE)), st.sampled_from(("a.A", "a.B", "a.C")))
POOL = (("plate", "1", "string"), ("plate", "2", "string"), ("place", "3", "string"), ("place", "3", "int"))
OWN = tuple((f"own{number}", f"9{number}", "float") for number in range(4))


@st.composite
def worlds(draw: st.DrawFn) -> PlainType:
    """Draw a chain of types that is often good, and often bad in one place."""
    one: PlainType | None = None
    for level in range(draw(st.integers(1, 4))):
        inherited = frozenset() if one is None else one.attributes
        if draw(st.integers(0, 5)) == 0:
            inherited = frozenset(list(inherited)[1:])
        taken = {part for attribute in inherited for part in attribute[:2]}
        more = draw(st.sampled_from((*POOL, OWN[level])))
        own = frozenset() if taken.intersection(more[:2]) else frozenset({more})
        grants = frozenset()
        name = draw(NAMES)
        if one is not None:
            whom, until = draw(st.sampled_from(tuple(PEOPLE))), draw(st.sampled_from((NOW - 5, NOW, NOW + 5)))
            grants = frozenset({(whom, one.name, until)}) | frozenset(
                {(name[0], one.name, NOW + 1)} if draw(st.booleans()) else ()
            )
        sealing = draw(st.sampled_from((None, None, "event", "attribute")))
        one = PlainType(name, inherited | own or frozenset({OWN[level]}), one, sealing, extend=grants)
    assert one is not None
    return one


def moment(number: int) -> Instant:
    return Instant(NOON + (number - NOW) * MINUTE)


def made(one: PlainType) -> SignedDefinition:
    """Write and sign a plain type; some mistakes are refused here already."""
    above = None if one.above is None else made(one.above)
    owner = PEOPLE[one.name[0]]
    attributes = tuple(
        Attribute(name, AttributeUid(uid), Kind(kind)) for name, uid, kind in sorted(one.attributes)
    )
    credentials = [
        extend(
            PEOPLE[what[0]],
            PEOPLE[who],
            owner=PEOPLE[what[0]].principal,
            name=what[1],
            validity=Validity(None, moment(until)),
        )
        for who, what, until in sorted(one.extend)
    ]
    sealing = None if one.sealing is None else Sealing(SealingLevel(one.sealing), owner.principal)
    definition = TypeDefinition(
        TypeName(owner.principal, one.name[1], FIRST_VERSION),
        None,
        attributes,
        tuple({certificate.id: certificate for certificate in credentials}.values()),
        sealing,
        () if above is None else (above,),
    )
    return sign_definition(definition, owner)


@given(worlds())
@example(PlainType(("pito", "a.A"), frozenset({POOL[0]})))
def test_a_definition_is_accepted_exactly_when_the_reference_finds_nothing_wrong(world):
    wrong = problems(world, NOW)
    if wrong:
        with pytest.raises(MaiaError) as refused:
            verify_definition(made(world), at=NOON)
        assert refused.value.code in wrong
        return
    verified = verify_definition(definition_from_bytes(definition_to_bytes(made(world))), at=NOON)
    assert [one.name.name for one in verified.super_types] == [one.name[1] for one in lineage(world)]
    for above in verified.super_types:
        assert set(above.attributes) <= set(verified.attributes)
