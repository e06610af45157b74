"""A policy that grants more of another owner's type than its domain holds is refused when it is loaded."""

from __future__ import annotations

import pytest

from maia.errors import MaiaError
from support.access_control import POLICY, Station
from support.policy import MET, NUMBERPLATE, PITO, granted

LINE = 1 + POLICY.splitlines().index("grant np_tracker(plate)")


def station(*held) -> Station:
    found = Station(MET)
    found.register_type(NUMBERPLATE.signed)
    found.hold([granted(PITO, MET, "subscribe", may_delegate=True, **one) for one in held])
    return found


def refused(at: Station, text: str) -> str:
    with pytest.raises(MaiaError) as problem:
        at.load_policy(text)
    assert problem.value.code == "INPUT-ROLE-POLICY"
    assert at.policy() is None
    return problem.value.message


def one_grant(privilege: str) -> str:
    return POLICY.split("grant np_tracker")[0] + f"grant np_tracker(_)\n    {privilege}\nend\n"


def test_an_attribute_that_it_does_not_hold_is_named_with_the_line_and_what_it_holds() -> None:
    said = refused(station({"attributes": "numberplate timestamp"}), POLICY)
    assert f"line {LINE}, column 1 in `grant np_tracker`" in said
    assert "members would see `location` of `uk.gov.pito.Numberplate`" in said
    assert "this domain holds `(numberplate, timestamp)`" in said
    assert "supervisor" not in said, "that one grants what the domain holds"


@pytest.mark.parametrize(
    "held", [{}, {"attributes": "numberplate timestamp"}, {"restriction": 'location == "Thames"'}]
)
def test_a_star_is_whatever_the_domain_holds(held) -> None:
    """So a policy that passes on what an owner shows needs no change when the owner shows another part."""
    assert station(held).load_policy(one_grant("may subscribe to Numberplate(*)")).version == 1


def test_a_star_with_a_restriction_that_reaches_further_is_refused() -> None:
    text = one_grant('may subscribe to Numberplate(*)\n    where location in ("Thames", "Tyne")')
    assert "beyond what it may pass on" in refused(station({"restriction": 'location == "Thames"'}), text)


def test_a_restriction_is_compared_on_the_attributes_that_it_asks_about() -> None:
    """What is restricted otherwise for the domain holds beside it, as everybody expects."""
    held = {"restriction": 'location == "Thames" and numberplate == "AE05 XYZ"'}
    for where in (
        'location == "Thames"',
        'numberplate in ("AE05 XYZ")',
        'timestamp > "2026-01-01T00:00:00Z"',
    ):
        text = one_grant(f"may subscribe to Numberplate(*)\n    where {where}")
        assert station(held).load_policy(text).version == 1, where
    said = refused(station(held), one_grant('may subscribe to Numberplate(*)\n    where location == "Tyne"'))
    assert "members would see events of `uk.gov.pito.Numberplate` beyond what it may pass on" in said
    assert 'this domain holds `(*) where location == "Thames" and numberplate == "AE05 XYZ"`' in said
    assert 'let it go no further than `where location == "Thames"`' in said


def test_what_two_certificates_grant_adds_up() -> None:
    held = [{"restriction": f'location == "{one}"'} for one in ("Thames", "Tyne")]
    both = one_grant('may subscribe to Numberplate(*)\n    where location in ("Thames", "Tyne")')
    assert station(*held).load_policy(both).version == 1
    assert "beyond what it may pass on" in refused(station(held[0]), both)


def test_a_restriction_by_a_value_of_the_member_is_not_judged() -> None:
    held = {"restriction": 'numberplate == "AE05 XYZ"'}
    assert station(held).load_policy(POLICY).version == 1


def test_a_restriction_by_what_it_may_not_read_cannot_be_repeated() -> None:
    held = {"restriction": 'location == "Thames"', "attributes": "numberplate timestamp"}
    assert station(held).load_policy(one_grant("may subscribe to Numberplate(numberplate)")).version == 1
    text = one_grant('may subscribe to Numberplate(numberplate)\n    where location == "Thames"')
    assert "members would see `location`" in refused(station(held), text)


def test_what_members_write_is_compared_too() -> None:
    found = Station(MET)
    found.register_type(NUMBERPLATE.signed)
    found.hold([granted(PITO, MET, "publish", may_delegate=True, attributes="numberplate")])
    text = one_grant("may publish Numberplate(numberplate, timestamp)")
    assert "members would write `timestamp`" in refused(found, text)


def test_who_may_only_see_lets_no_member_write() -> None:
    said = refused(station({}), one_grant("may publish Numberplate(numberplate)"))
    assert f"line {LINE}, column 1 in `grant np_tracker`" in said
    assert "members would write `uk.gov.pito.Numberplate`; this domain holds no right to publish it" in said


def test_what_it_holds_nothing_of_may_still_come() -> None:
    assert station().load_policy(POLICY).version == 1


def test_a_policy_in_force_stays_when_the_domain_comes_to_hold_less() -> None:
    found = station()
    found.load_policy(POLICY)
    found.hold([granted(PITO, MET, "subscribe", may_delegate=True, attributes="numberplate")])
    assert found.load_policy(POLICY).is_unchanged
