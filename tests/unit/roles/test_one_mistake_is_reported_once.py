"""What follows from a mistake is not told beside it: its author mends one line and is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.roles import BadPolicy
from support.roles import policy

ABOVE = 3
"""Lines that stand above the body of a policy in these tests."""
GOOD = """\
appointment order(case: string, plate: string) by court
fact detective(who: principal)
fact assigned(who: principal, case: string)
role tracker(plate: string)
role boss(plate: string)
rule tracker(plate)
    while order(case, plate)
    while detective(holder)
    given assigned(holder, case)
    until the order ends
rule boss(plate)
    while tracker(plate)
    until tracker ends
grant tracker(plate)
    may subscribe to Numberplate(numberplate, location)
    where numberplate == $plate
grant boss(plate)
    may subscribe to Numberplate(*)
    where numberplate == $plate
"""
ORDER = "appointment order(case: string, plate: string) by court"
TRACKER = "role tracker(plate: string)"
BOSS = "role boss(plate: string)"


def told(body: str) -> list[tuple[int, int, str]]:
    """Where its author is told that something is wrong, and in which statement."""
    with pytest.raises(BadPolicy) as refusal:
        policy(body)
    return [(one.line - ABOVE, one.column, one.statement) for one in refusal.value.problems]


def test_the_policy_is_good_before_it_is_broken():
    assert policy(GOOD).roles_in_order == ("tracker", "boss")


@pytest.mark.parametrize(
    ("wrote", "instead_of", "where"),
    [
        pytest.param("role tracker(plate: txt)", TRACKER, (4, 21, "role tracker"), id="a kind that is none"),
        pytest.param("role tracker(plate string)", TRACKER, (4, 20, "role tracker"), id="no colon"),
        pytest.param("role tracker(plate: string", TRACKER, (4, 27, "role tracker"), id="no parenthesis"),
        pytest.param("role tracker(plate: string) x", TRACKER, (4, 29, "role tracker"), id="too much"),
        pytest.param("role 1tracker(plate: string)", TRACKER, (4, 6, "role 1tracker"), id="no name"),
        pytest.param("role tr\u00e1cker(plate: string)", TRACKER, (4, 8, "role tr"), id="another letter"),
        pytest.param("role\u00a0tracker(plate: string)", TRACKER, (4, 5, ""), id="a space that is none"),
        pytest.param("rol tracker(plate: string)", TRACKER, (4, 1, ""), id="a word that begins nothing"),
        pytest.param(" " + TRACKER, TRACKER, (4, 2, "fact assigned"), id="indented by mistake"),
        pytest.param("", TRACKER + "\n", (5, 6, "rule tracker"), id="not declared at all"),
        pytest.param(ORDER[:-9], ORDER, (1, 47, "appointment order"), id="nobody issues it"),
        pytest.param(ORDER[:-5] + "curt", ORDER, (1, 51, "appointment order"), id="an unknown issuer"),
        pytest.param("fact detective(who: person)", "fact detective(who: principal)",
                     (2, 21, "fact detective"), id="a fact about nothing"),
        pytest.param("while ordr(", "while order(", (7, 11, "rule tracker"), id="a premise that is none"),
        pytest.param("while order(case plate)", "while order(case, plate)", (7, 22, "rule tracker"),
                     id="a premise that cannot be read"),
        pytest.param("while tracker(plat)", "while tracker(plate)", (11, 11, "rule boss"),
                     id="a slip in a variable"),
        pytest.param("import national\n" + ORDER, ORDER, (1, 1, "import national"), id="no such parent"),
    ],
)  # fmt: skip
def test_one_mistake_is_told_once(wrote: str, instead_of: str, where: tuple[int, int, str]):
    assert instead_of in GOOD
    assert told(GOOD.replace(instead_of, wrote, 1)) == [where]


def test_a_key_that_is_none_is_told_once():
    keys = "\nkey chief = ed25519:00\nappointment badge by chief\nrole chiefs\nrule chiefs\n"
    rule = "    while badge\n    given assigned(chief, _)\n    until badge ends"
    assert told(GOOD.replace(BOSS, BOSS + keys + rule)) == [(6, 13, "key chief")]


def test_a_type_that_there_is_not_is_told_once():
    of_type = (
        "\ntype Np = Numberplatt\ngrant boss(plate)\n    may publish Np(*)\n    where numberplate == $plate"
    )
    assert told(GOOD.replace(BOSS, BOSS + of_type)) == [(6, 11, "type Np")]


def test_roles_of_a_parent_that_there_is_not_are_not_missed_one_by_one():
    added = "also rule constable\n    for 1 day\ngrant sergeant\n    may publish Numberplate(*)\n"
    assert told("import national\n" + added) == [(1, 1, "import national")]


def test_a_name_misspelt_in_two_places_is_told_in_both():
    """Each of them has to be mended."""
    assert told(GOOD.replace("detective(holder)", "detectiv(holder)\n    given detectiv(holder)")) == [
        (8, 11, "rule tracker"),
        (9, 11, "rule tracker"),
    ]


def test_two_mistakes_are_told_both():
    broken = GOOD.replace(TRACKER, "role tracker(plate: txt)").replace("(*)", "(locaton)")
    assert told(broken) == [(4, 21, "role tracker"), (18, 34, "grant boss")]


def test_a_policy_whose_only_role_is_broken_is_not_told_that_it_has_none():
    assert told("role r(x: money)") == [(1, 11, "role r")]
    assert told("fact f") == [(1 - ABOVE, 1, "")]


@pytest.mark.laws
@given(st.data())
def test_a_line_that_goes_missing_or_is_garbled_is_never_passed_over(data):
    """A42: what is not told because it follows from something else is still not granted."""
    lines = GOOD.splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[number]) - 1))
    what = data.draw(st.sampled_from(("", "(", ")", ",", "x", "1", " ", "\u00a0", "\u00e1", "\n", "$")))
    lines[number] = lines[number][:at] + what + lines[number][at + 1 :]
    try:
        read = policy("\n".join(lines))
    except BadPolicy:
        return
    assert sum(map(len, read.rules.values())) == GOOD.count("rule ")
    assert sum(map(len, read.grants.values())) == GOOD.count("grant ")
