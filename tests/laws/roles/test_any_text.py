"""Whatever text arrives as a policy, the answer is a policy or a list of what to mend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.roles import BadPolicy, changes, parse_policy
from reference import oasis
from support.roles import DOMAIN, THING, Dice, shown

WORDS = st.sampled_from(
    (
        *(
            "policy",
            '"x"',
            "rule",
            "grant",
            "role",
            "fact",
            "appointment",
            "key",
            "type",
            "import",
            "also",
            "end",
        ),
        *(
            "while",
            "given",
            "if",
            "ask",
            "for",
            "until",
            "may",
            "where",
            "provided",
            "checked",
            "by",
            "of",
            "held",
        ),
        *(
            "r",
            "r()",
            "r(x)",
            "(",
            ")",
            ",",
            ":",
            "=",
            "$x",
            "_",
            "holder",
            "here",
            "string",
            "8 hours",
            "revoked",
        ),
        *(
            "between 09:00 and 17:00 in UTC",
            "on monday",
            "subscribe",
            "Thing(plate)",
            "plate == $x",
            "#",
            '"',
            "\\",
        ),
    )
)
SPACES = st.sampled_from((" ", " ", " ", "\n", "\n    ", ""))
PIECES = st.lists(st.tuples(WORDS, SPACES).map("".join), max_size=40).map("".join)


def read(text):
    return parse_policy(text, origin="any", domain=DOMAIN.principal, types={"Thing": THING})


def read_or_refused(text) -> None:
    problems = ()
    try:
        read(text)
    except BadPolicy as refusal:
        problems = refusal.problems
    lines = text.count("\n") + 1
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in problems)


@pytest.mark.laws
@given(st.one_of(PIECES, PIECES.map(lambda some: f'policy "x"\nrole r(x: string)\n{some}\nend\n'), st.text()))
def test_any_words_are_read_or_refused(text):
    read_or_refused(text)


@pytest.mark.laws
@given(st.integers(0, 2**32), st.data())
def test_a_policy_with_something_cut_doubled_or_exchanged_is_read_or_refused(seed, data):
    text = oasis.as_text(Dice(seed).policy(), shown=shown, attribute="plate")
    begins = data.draw(st.integers(0, len(text)))
    ends = data.draw(st.integers(begins, min(len(text), begins + 30)))
    middle = data.draw(st.one_of(st.just(""), WORDS, st.text(max_size=3), st.just(text[begins:ends] * 2)))
    read_or_refused(text[:begins] + middle + text[ends:])


@pytest.mark.laws
@given(st.integers(0, 2**32), st.booleans())
def test_the_same_rules_in_another_order_are_the_same_policy(seed, backwards):
    policy = Dice(seed).policy()
    one = read(oasis.as_text(policy, shown=shown, attribute="plate"))
    other = read(oasis.as_text(policy, shown=shown, attribute="plate", comment="x", backwards=backwards))
    found = changes(one, other)
    assert not found.takes_away
    assert not found.rules_new
    assert not found.grants_new
