"""The text of a policy: what it may say, and what its author hears when it says something else."""

from __future__ import annotations

import pytest

from maia.credentials import ALL_ATTRIBUTES, Action
from maia.credentials.appointments import ParameterKind
from maia.credentials.certificate import TestKind
from maia.errors import BadInput
from maia.roles import BadPolicy, parse_policy
from maia.roles.policy import (
    ANYTHING,
    HERE,
    HOLDER,
    CertificatePremise,
    Ends,
    FactPremise,
    Literal,
    TimePremise,
    Variable,
)
from maia.roles.statements import PROBLEMS_MAX
from maia.types import TypeDefinition, sign_definition, verify_definition
from maia.types.definition import plain_attributes, tree_name
from support.roles import COURT, DOMAIN, HIGH_COURT, NUMBERPLATE_TYPE, SMITH, TYPES, policy
from support.types import NOON, PITO

DECLARED = """
appointment order(case: string, plate: string) by court
fact detective(who: principal)
fact case_work(who: principal, case: string, year: int)
fact assigned(who: principal, case: string)
fact level(who: principal, level: int)
fact shift(who: principal, ends: timestamp)
fact on_duty(who: principal)
fact incident
role tracker(plate: string)
role clerk
"""
RULE = """
rule tracker(plate)
    while order(case, plate)
    given assigned(holder, case)
"""


OF_PLATE = "may subscribe Numberplate(*)\nwhere numberplate == $plate"


def problems(body: str, **options):
    """Return the problems of a policy, without the three lines above its body."""
    with pytest.raises(BadPolicy) as refusal:
        policy(body, **options)
    return [(one.line - 3, one.column, one.sentence, one.hint) for one in refusal.value.problems]


def problem(body: str, **options) -> tuple[str, str]:
    """Return the one problem of a policy: its sentence and its hint."""
    ((_, _, sentence, hint),) = problems(body, **options)
    return sentence, hint


def grant(clauses: str, head: str = "tracker(plate)") -> str:
    """Return declarations and a grant of some clauses."""
    return f"{DECLARED}{RULE}grant {head}\n" + "".join(f"    {line}\n" for line in clauses.split("\n"))


# ------------------------------------------------------------------------------------------ what is read


def test_a_rule_is_read_as_it_is_written():
    (rule,) = policy(DECLARED + RULE).rules["tracker"]
    case, plate = Variable("case"), Variable("plate")
    assert rule.terms == (plate,)
    assert rule.premises == (
        CertificatePremise("order", (case, plate), HOLDER, is_watched=True),
        FactPremise("assigned", (HOLDER, case), is_watched=False),
    )
    assert rule.kinds == {"case": ParameterKind.STRING, "plate": ParameterKind.STRING}
    assert str(rule.place) == "test, line 16"


def test_declarations_keep_kinds_and_issuers():
    read = policy(
        "appointment a(n: int, f: float, b: bool, t: timestamp) by court, high_court or here\nrole r"
    )
    kinds = [parameter.kind.value for parameter in read.appointments["a"].parameters]
    assert kinds == ["int", "float", "bool", "timestamp"]
    assert read.issuers("a") == {COURT.principal, HIGH_COURT.principal, DOMAIN.principal}


def test_a_role_of_another_domain_is_a_certificate_with_a_name_of_its_own():
    read = policy("role their_officer(number: int) of court named officer\nrole r")
    declaration = read.appointments["their_officer"]
    assert (declaration.called, declaration.is_role) == ("officer", True)


def test_terms_are_variables_values_keys_or_anything():
    body = """
fact f(a: principal, b: principal, c: string, d: int, e: bool, g: timestamp, h: float)
role r
rule r
    given f(court, holder, "x \\"y\\"", -5, true, @2026-11-15T12:00:00Z, _)
    until revoked
"""
    (premise,) = policy(body).rules["r"][0].premises
    values = [term.value if isinstance(term, Literal) else term for term in premise.terms]
    assert values[:2] == [COURT.principal, HOLDER]
    assert values[2:5] == ['x "y"', -5, True]
    assert (str(values[5]), values[6]) == ("2026-11-15T12:00:00Z", ANYTHING)


def test_somebody_else_can_be_the_holder():
    body = DECLARED + "rule clerk\n    while order(_, _) held by judge\n    while detective(judge)\n"
    assert policy(body).rules["clerk"][0].premises[0].held_by == Variable("judge")


def test_a_time_of_the_week_is_a_premise():
    body = "role r\nrule r\n    while between 22:00 and 06:30 on friday to sunday, tuesday in Europe/London\n"
    (premise,) = policy(body).rules["r"][0].premises
    assert isinstance(premise, TimePremise)
    assert (premise.window.begins, premise.window.ends) == (1320, 390)
    assert premise.window.days == {2, 5, 6, 7}


def test_days_may_go_around_the_end_of_the_week():
    body = "role r\nrule r\n    while on saturday to monday in Europe/London\n"
    assert policy(body).rules["r"][0].premises[0].window.days == {6, 7, 1}


@pytest.mark.parametrize(
    ("clause", "ends"),
    [
        ("for 8 hours", Ends(after_us=8 * 3600 * 10**6)),
        ("for 1 day", Ends(after_us=86_400 * 10**6)),
        ("until the order ends", Ends(premises=(0,))),
        ("until order ends\n    for 2 weeks", Ends(after_us=1_209_600 * 10**6, premises=(0,))),
        ("until revoked", Ends(is_until_revoked=True)),
    ],
)
def test_a_membership_ends_as_the_rule_says(clause, ends):
    assert policy(f"{DECLARED}{RULE}    {clause}\n").rules["tracker"][0].ends == ends


def test_a_membership_can_end_at_a_moment_on_record():
    body = DECLARED + "rule clerk\n    given shift(holder, over)\n    until over\n"
    assert policy(body).rules["clerk"][0].ends == Ends(moments=("over",))


def test_a_grant_is_read_as_it_is_written():
    body = grant(
        "given level(holder, n)\nif n >= 3\nmay subscribe and publish to Numberplate(location, numberplate)\n"
        "where numberplate == $plate\nprovided on-duty == true\nfor 8 hours\nmay delegate\n"
        "checked by one-time, crl"
    )
    (found,) = policy(body).grants["tracker"]
    privilege = found.privilege
    assert privilege.actions == {Action.SUBSCRIBE, Action.PUBLISH}
    assert privilege.resource.owner == PITO.principal
    assert privilege.attributes == {"3467", "3265"}
    assert privilege.restriction == "numberplate == $plate"
    assert privilege.condition == "on-duty == true"
    assert privilege.may_delegate
    assert privilege.tests == (TestKind.CRL, TestKind.ONE_TIME)
    assert found.ends == Ends(after_us=8 * 3600 * 10**6)


def test_a_right_is_tested_by_a_timed_list_unless_the_grant_says_otherwise():
    plain = grant("may subscribe Numberplate(*)", "tracker(_)")
    assert policy(plain).grants["tracker"][0].privilege.tests == (TestKind.TIMED_CRL,)
    dates = grant("may subscribe Numberplate(*)\nchecked by dates", "tracker(_)")
    assert policy(dates).grants["tracker"][0].privilege.tests == ()


@pytest.mark.parametrize(
    ("words", "owner", "pattern"),
    [
        ('publish topic "/admin/facts" of here', HERE, "/admin/facts"),
        ('subscribe to topic "/admin/*" of court', COURT.principal, "/admin/*"),
        ('connect to network "UK Police" of court', COURT.principal, "UK Police"),
        ('extend type "uk.*" of here', HERE, "uk.*"),
    ],
)
def test_a_grant_may_be_about_topics_networks_and_patterns(words, owner, pattern):
    (found,) = policy(grant(f"may {words}", "clerk")).grants["clerk"]
    assert (found.privilege.resource.owner, str(found.privilege.resource.pattern)) == (owner, pattern)
    assert found.privilege.attributes is ALL_ATTRIBUTES


def test_names_of_types_can_be_shortened():
    body = 'type Plate = "uk.gov.pito.Numberplate"\n' + grant("may subscribe Plate(*)", "tracker(_)")
    read = policy(body, types={"uk.gov.pito.Numberplate": NUMBERPLATE_TYPE})
    assert str(read.grants["tracker"][0].privilege.resource.pattern) == "uk.gov.pito.Numberplate"


def test_topics_are_granted_by_their_declaration_and_a_pattern():
    shape = plain_attributes()
    news = TypeDefinition(tree_name(PITO.principal, "/news"), None, shape)
    types = {"topic.news": verify_definition(sign_definition(news, PITO), at=NOON)}
    words = 'may subscribe News(*)\nwhere levels(topic, "/news/+/sport/#")'
    (found,) = policy("type News = topic.news\n" + grant(words, "clerk"), types=types).grants["clerk"]
    assert str(found.privilege.resource.pattern) == "topic.news"
    assert found.privilege.restriction == 'levels(topic, "/news/+/sport/#")'


def test_comments_blank_lines_and_long_lines_are_no_matter():
    body = DECLARED + RULE
    airy = "# hello\n\n" + body.replace("\n", '   # (why) "not"\n\n   #\n').replace(
        "case, plate)", "case,\n\n      plate)", 1
    )
    assert policy(airy).rules["tracker"][0].id == policy(body).rules["tracker"][0].id


def test_a_uid_in_a_restriction_is_no_comment():
    body = grant("may subscribe Numberplate(*)\nwhere #3265 == $plate # by its uid")
    assert policy(body).grants["tracker"][0].privilege.restriction == "#3265 == $plate"


def test_a_hash_inside_a_string_is_no_comment():
    body = grant('may subscribe Numberplate(*)\nwhere numberplate == $plate and location != " # x"')
    assert " # x" in policy(body).grants["tracker"][0].privilege.restriction


def test_windows_line_ends_are_read_too():
    text = 'policy "T"\nrole r\nrule r\n    for 1 day\nend\n'.replace("\n", "\r\n")
    assert parse_policy(text.encode(), origin="t", domain=DOMAIN.principal).roles.keys() == {"r"}


def test_roles_come_after_those_they_rest_on():
    body = "role a\nrole b\nrole c\nrule a\n    while b\nrule b\n    while c\nrule c\n    for 1 day\n"
    assert policy(body).roles_in_order == ("c", "b", "a")


# --------------------------------------------------------------------------------------- what is refused


def test_every_mistake_is_named_at_once_with_line_column_rule_and_hint():
    body = """
appointment order(case: string, plate: strin) by court
fact detective(who: principal)
role tracker(plate: string)
rule tracker(plate)
    while detectiv(holder)
rule traker(plate)
    while detective(plate)
grant tracker(plate)
    may subscribe Numberplate(locaton)
"""
    with pytest.raises(BadPolicy) as refusal:
        policy(body)
    shown = [str(one) for one in refusal.value.problems]
    assert shown == [
        "line 5, column 40 in `appointment order`: expected a kind: string, int, float, bool, timestamp, "
        "principal (did you mean `string`?)",
        "line 9, column 11 in `rule tracker`: there is no role, appointment or fact `detectiv` "
        "(did you mean `detective`?)",
        "line 10, column 6 in `rule traker`: there is no role `traker` (did you mean `tracker`?)",
        "line 13, column 31 in `grant tracker`: the type has no attribute `locaton` "
        "(did you mean `location`?)",
    ]
    assert all(line in refusal.value.message for line in shown)
    assert refusal.value.as_record()["problems"][0]["line"] == 5


def test_enough_is_enough():
    with pytest.raises(BadPolicy) as refusal:
        policy("nonsense\n" * 500)
    assert len(refusal.value.problems) == PROBLEMS_MAX


@pytest.mark.parametrize(
    ("rule", "sentence", "hint"),
    [
        ("rule tracker(plate)\n for 1 day", "nothing gives `plate` a value", "bind it in a premise"),
        (
            "rule tracker(plate)\n given order(_, plaet)\n for 1 day",
            "nothing gives `plate`",
            "did you mean `plaet`",
        ),
        (
            "rule tracker(plate)\n while order(plat, plate)",
            "`plat` is used in this place only",
            "did you mean `plate`",
        ),
        (
            "rule tracker(plate)\n while order(number, plate)",
            "`number` is used in this place only",
            "write `_`",
        ),
        (
            "rule tracker(x)\n while order(_, x)\n while level(holder, x)",
            "`x` is a int here and a string in",
            "",
        ),
        ("rule tracker(_)\n while order(_, _)", "`_` cannot be used here", ""),
        ("rule tracker(holder)\n for 1 day", "`holder` is a principal, and a string is asked for here", ""),
        ("rule tracker(court)\n for 1 day", "`court` is a key, and a string is asked for here", ""),
        ("rule tracker(5)\n for 1 day", "expected a quoted string", ""),
        ("rule tracker\n for 1 day", "`tracker(plate: string)` has 1 parameters, and 0 are given", ""),
        ('rule tracker("a", "b")\n for 1 day', "has 1 parameters, and 2 are given", ""),
        ("rule clerk\n while detective(holder)", "this role would never end", "until revoked"),
        ("rule clerk\n given order(_, _)", "this role would never end", "until revoked"),
        ("rule clerk\n until detective ends\n given detective(holder)", "has no end of its own", ""),
        ("rule clerk\n until oder ends\n given order(_, _)", "no premise here is called `oder`", "`order`"),
        ("rule clerk\n for 8 ours", "expected seconds, minutes, hours", "did you mean `hours`"),
        ("rule clerk\n for 0 hours", "expected a duration", ""),
        ("rule clerk\n for 600 weeks", "longer than ten years", "until revoked"),
        ("rule clerk\n for 1 day\n for 2 days", "`for` is here twice", ""),
        ("rule clerk\n while between 9 and 17 in Europe/London", "expected a time of the day", ""),
        ("rule clerk\n while between 09:00 and 24:01 in Europe/London", "`24:01` is no time of the day", ""),
        ("rule clerk\n while between 09:00 and 17:00", "expected `in` and a time zone", ""),
        (
            "rule clerk\n while between 09:00 and 17:00 in Europe/Londn",
            "no time zone `Europe/Londn`",
            "Europe/London",
        ),
        ("rule clerk\n while between 00:00 and 24:00 in Europe/London", "no part of the day or week", ""),
        ("rule clerk\n while between 09:00 and 09:00 in Europe/London", "no part of the day or week", ""),
        (
            "rule clerk\n while on mondy in Europe/London",
            "expected a day of the week",
            "did you mean `monday`",
        ),
        (
            "rule clerk\n given level(holder, n)\n if n >= 3 and m == 2\n for 1 day",
            "there is no variable `m`",
            "",
        ),
        ("rule clerk\n given level(holder, n)\n if n >= $m\n for 1 day", "nothing is handed in for `$m`", ""),
        ('rule clerk\n given level(holder, n)\n if n == "3"\n for 1 day', "expected a whole number", ""),
        ("rule clerk\n given level(p, n)\n if n == $p\n for 1 day", "`$p`: a int was expected", ""),
        (
            "rule tracker(plate)\n ask plat\n for 1 day",
            "`plat` is not in the head",
            "did you mean `plate`",
        ),
        ("rule clerk\n where x == 1\n for 1 day", "expected `address in` and a network", ""),
        ("rule detective\n for 1 day", "`detective` is not a role of this domain", ""),
        ("rule clerk\n while order(_, _) held by 5", "expected `holder`, a key or a variable", ""),
        ("rule clerk\n while order(_, _) please", "expected the end of the line, but found `please`", ""),
        (
            "rule clerk\n while level(Who, n)\n given level(who, n)\n for 1 day",
            "differ in capital letters",
            "",
        ),
        ("rule clerk extra\n for 1 day", "expected the end of the line", ""),
        ("rule clerk\n for 1 day\nrule clerk\n for 1 day", "this says the same as test, line", ""),
    ],
)
def test_a_rule_that_is_unsafe_or_unclear_is_refused(rule, sentence, hint):
    found = problems(f"{DECLARED}{rule}\n")
    assert any(sentence in said and hint in offered for _, _, said, offered in found), found


@pytest.mark.parametrize(
    ("clauses", "sentence"),
    [
        ("for 1 day", "a grant says what its members may do"),
        ("may subscribe Numberplate(numberplate)", "`plate` is used in this place only"),
        ("may subscribe Numberplate\nwhere numberplate == $plate", "or `(*)` for all of them"),
        ("may subscribe Numberplate()", "expected an attribute or `*`"),
        ("may subscribe Numberplte(*)\nwhere numberplate == $plate", "there is no type `Numberplte`"),
        ("may subscibe Numberplate(*)\nwhere numberplate == $plate", "subscibe"),
        ("may connect Numberplate\nwhere numberplate == $plate", "`connect` means nothing for a type"),
        ("may subscribe Numberplate(*)\nwhere numberplate == $plat", "nothing is handed in for `$plat`"),
        ("may subscribe Numberplate(*)\nwhere timestamp == $plate", "`$plate`: a timestamp was expected"),
        ("may subscribe Numberplate(*)\nwhere plate == $plate", "there is no attribute `plate`"),
        ("may subscribe Numberplate(*)\nwhere token(location, $plate)", "a token is written out"),
        ('may subscribe topic "/x" of here\nwhere plate == $plate', "`where` needs a type"),
        ('may subscribe topic "x" of here', "a topic begins with `/`"),
        ('may subscribe topic "/x" of nobody', "there is no key `nobody`"),
        (
            "may subscribe Numberplate(*)\nmay publish Numberplate(*)\nwhere numberplate == $plate",
            "one privilege",
        ),
        ('OF PLATE\nwhere location == "x"', "is here twice"),
        ("OF PLATE\nask plate", "has no clause `ask`"),
        ("OF PLATE\nchecked by luck", "expected `dates` or some of"),
        ("OF PLATE\nprovided Duty == true", "uid"),
        ("OF PLATE\nprovided time-minute-utopia < 5", "a zone that does not exist"),
        ("OF PLATE\nprovided address in 10.2.0.1/16", "expected a network such as"),
        ("OF PLATE\nprovided incidnt == true", "there is no fact `incidnt`"),
        ("OF PLATE\nprovided assignments == 1", "there is no fact `assignments`"),
        ("OF PLATE\nprovided case-work == true", "can never be stated"),
        ("OF PLATE\nprovided on-duty == false", "can never hold"),
        ("OF PLATE\nprovided not on-duty == true", "can never hold"),
        ("OF PLATE\nprovided level >= 3.5", "`level` is a int, and is compared with another kind"),
        ("OF PLATE\nprovided rate-minute < 0.5", "compared with another kind"),
    ],
)
def test_a_grant_that_is_unsafe_or_unclear_is_refused(clauses, sentence):
    found = problems(grant(clauses.replace("OF PLATE", OF_PLATE)))
    assert any(sentence in said for _, _, said, _ in found), found


def test_a_parameter_that_a_grant_forgets_must_be_forgotten_on_purpose():
    """The commonest slip would hand out every plate: leaving the restriction away."""
    assert "used in this place only" in problem(grant("may subscribe Numberplate(*)"))[0]
    assert policy(grant("may subscribe Numberplate(*)", "tracker(_)")).grants["tracker"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("role r\nrole r", "`r` is already declared in line 4"),
        ("role r\nfact r()", "`r` is already declared in line 4"),
        ("role court", "`court` is already the name of a key"),
        ("key court = ed25519:00", "is already the name of a key"),
        ("key k = ed25519:00\nrole r", "is not a key"),
        ("key k = rsa:00\nrole r", "expected a key"),
        (f"key k = {SMITH.principal} now\nrole r", "expected the end of the line"),
        ("type T = Nothing\nrole r", "there is no type `Nothing`"),
        ("fact holder(x: int)\nrole r", "`holder` has a meaning of its own"),
        ("fact f(x: int, x: int)\nrole r", "two parameters are called `x`"),
        ("fact f(" + ", ".join(f"x{n}: int" for n in range(17)) + ")\nrole r", "at most 16 parameters"),
        (f"fact {'f' * 64}()\nrole r", "is longer than 63 characters"),
        ("appointment a(x: int)\nrole r", "expected `by` and who may issue it"),
        ("appointment a(x: int) by nobody\nrole r", "there is no key `nobody`"),
        ("role r\n    for 1 day", "a `role` has no clause `for`"),
        ("import nobody\nrole r", "there is no parent policy `nobody`"),
        ("roel r\nrole q", "a statement begins with one of"),
        ("#comment\nrole r", "a statement begins with one of"),
        ("fact f()", "the policy has no role"),
        ('policy "Two"\nrole r', "a text holds one policy"),
        ("end\nrole r", "nothing follows `end`"),
        ("also role r\nrole q", "expected `rule` or `grant` behind `also`"),
        ("role r\nalso rule r\n    for 1 day", "leave `also` away"),
        ("role r\u202e", "the character U+202E does not belong in a policy"),
        ("role r\x00", "the character U+0000 does not belong in a policy"),
        ("role r\ud800", "the character U+D800 does not belong in a policy"),
        ("role r # \N{NO-BREAK SPACE}", "the character U+00A0 does not belong"),
    ],
)
def test_a_declaration_that_is_unclear_is_refused(body, sentence):
    found = problems(body)
    assert any(sentence in said for _, _, said, _ in found), found


def test_a_word_that_only_looks_like_a_comment_gets_a_hint():
    assert "a space behind `#`" in problem("#comment\nrole r")[1]


@pytest.mark.parametrize(
    "rules",
    [
        "rule a\n while a\n",
        "rule a\n given b\n for 1 day\nrule b\n while a\n",
        "rule a\n while b\nrule b\n while c\nrule c\n while a held by _\n",
    ],
)
def test_roles_that_rest_on_each_other_are_refused(rules):
    sentence, _ = problem("role a\nrole b\nrole c\n" + rules)
    assert "these roles depend on each other" in sentence


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n# nothing\n",
        "   ",
        'policy "X"',
        'policy "X"\nend',
        'policy "X"\nrole r\n',
        'policy "X"\nrole r\nrule r\n    for 1 day',
        "role r\nrule r\n    for 1 day\nend",
        "policy X\nrole r\nend",
        'policy "X\nrole r\nend',
        '  policy "X"\nrole r\nend',
        'policy "X"\nrole r\nendless',
        'policy "X"\nrole r\nend of it',
        b"\xff\xfe",
        b'policy "\xc3\x28"\nrole r\nend',
        '\ufeffpolicy "X"\nrole r\nend',
        'policy "X"\nrole r\nend\n' + "#" * (1 << 19),
        'policy "X"\n' + "fact f()\n" * 3000 + "role r\nend",
        "(" * 100_000,
        '"' * 100_000,
        "\n" * 400_000,
        'policy "X"\nrole r\n' + " x\n" * 100_000 + "end",
        'policy "X"\nrole r\nrule r\n' + " if " + "(" * 50_000 + "\n for 1 day\nend",
        'policy "X"\nrole r\nrule r\n' + " for 1 day\n" * 1000 + "end",
    ],
)
def test_whatever_is_no_whole_policy_is_refused_and_nothing_worse(text):
    with pytest.raises(BadPolicy):
        parse_policy(text, origin="test", domain=DOMAIN.principal)


def test_refusals_show_bounded_escaped_text():
    with pytest.raises(BadPolicy) as refusal:
        parse_policy("x" * 10_000, origin="o" * 10_000 + "\x1b", domain=DOMAIN.principal)
    assert len(refusal.value.message) < 1500
    assert "\x1b" not in refusal.value.message
    assert isinstance(refusal.value, BadInput)


def test_types_are_checked_against_the_types_that_were_handed_in():
    assert "there is no type" in problem(grant("may subscribe Numberplate(*)", "tracker(_)"), types={})[0]
    assert TYPES
