"""Names and patterns: no name is taken for another, and no pattern grants more than it says."""

from __future__ import annotations

import pytest

from maia.canonical import read_canonical, write_canonical
from maia.credentials import (
    ALL_ACTIONS,
    UNBOUNDED,
    Action,
    Authority,
    BadCertificate,
    BadKey,
    BadName,
    BadPattern,
    LocalName,
    NameCertificate,
    NetworkName,
    QuorumId,
    TopicName,
    TypeName,
    TypePattern,
    authority_from_expression,
    authority_to_expression,
    covers_request,
    intersect,
    issue,
    parse_name_pattern,
    principal_from_bytes,
    principal_from_text,
)
from maia.credentials.documents import OWNER
from maia.errors import MaiaError
from support.certificates import KEYS, VERSION

MALLORY_KEY = KEYS[4]
PITO, MALLORY = KEYS[0].principal, MALLORY_KEY.principal
SUBSCRIBE = frozenset({Action.SUBSCRIBE})

METACHARACTERS = [
    "*",
    "?",
    "#",
    "+",
    ">",
    "[",
    "]",
    "\\",
    "^",
    "$",
    "(",
    ")",
    "{",
    "}",
    "|",
    "%",
    "~",
    "!",
    "\n",
    "\r",
    "\t",
    "\x00",
]
CONFUSING = [
    "Caf\u00e9",  # NFC
    "Cafe\u0301",  # NFD
    "\u0421CS",  # a Cyrillic letter that looks Latin
    "ＣＣＳ",  # full width
    "uk.gov.",
    ".uk",
    "uk..gov",
    "uk.gov ",
    " uk",
    "uk. gov",
    "uk.gov\u00a0pito",
    "..",
    ".",
    "",
    " ",
    "a/../b",
    "uk%2Egov",
    "a\x00b",
    "\ufeffuk",
    "a\u200bb",
    "a\u202eb",
    "\ud800",
    "-a",
    "a-",
    "x" * 201,
]  # fmt: skip


def test_overlap_is_not_containment():
    """A1, A2: a grant that overlaps another adds nothing outside it."""
    granted = Authority(TypePattern(PITO, parse_name_pattern("traffic.*"), None), SUBSCRIBE)
    wanted = Authority(TypePattern(PITO, parse_name_pattern("*.london"), None), SUBSCRIBE)
    both = intersect(granted, wanted)
    assert both is not None
    assert covers_request(both, Action.SUBSCRIBE, TypeName(PITO, "traffic.london", "0"))
    assert not covers_request(both, Action.SUBSCRIBE, TypeName(PITO, "traffic.leeds", "0"))
    assert not covers_request(both, Action.SUBSCRIBE, TypeName(PITO, "health.london", "0"))


@pytest.mark.parametrize(
    "wildcard", ["traffic.*", "*", "traffic.>", "traffic.#", "traffic.+", "$share.group.traffic"]
)
def test_no_peer_asks_for_a_pattern(wildcard):
    """A1, A2: a request names one resource; a wildcard or a group prefix in it is no name."""
    for make in (
        lambda: TypeName(PITO, wildcard, "0"),
        lambda: NetworkName(PITO, wildcard),
        lambda: TopicName(PITO, "/" + wildcard),
    ):
        with pytest.raises(BadName):
            make()


@pytest.mark.parametrize("character", METACHARACTERS)
def test_metacharacters_are_refused_in_every_name(character):
    """A3: a name that could be read as a pattern or break a template does not exist."""
    text = f"a{character}b"
    for make in (
        lambda: TypeName(PITO, text, "0"),
        lambda: NetworkName(PITO, text),
        lambda: TopicName(PITO, f"/{text}"),
        lambda: TypeName(PITO, "a", text),
    ):
        with pytest.raises(BadName):
            make()
    for subject in (LocalName(PITO, (text,)), LocalName(PITO, ("ok", text))):
        with pytest.raises(BadCertificate):
            issue(NameCertificate(MALLORY, "ok", subject, UNBOUNDED), MALLORY_KEY)
    with pytest.raises(BadCertificate):
        issue(NameCertificate(MALLORY, text, PITO, UNBOUNDED), MALLORY_KEY)


@pytest.mark.parametrize("character", [character for character in METACHARACTERS if character != "*"])
def test_metacharacters_are_refused_in_patterns(character):
    """A3: `*` is the only wildcard; no other sign has or gets a meaning."""
    for text in (character, f"a{character}", f"{character}*", f"*a{character}b*"):
        with pytest.raises(BadPattern):
            parse_name_pattern(text)


@pytest.mark.parametrize("name", CONFUSING)
def test_names_that_could_be_confused_are_refused(name):
    """A5: Unicode forms, look-alikes, empty segments, encodings and invisible characters."""
    with pytest.raises(BadName):
        TypeName(PITO, name, "0")
    with pytest.raises(BadName):
        NetworkName(PITO, name)


@pytest.mark.parametrize("name", [b"\xc0\xaf", b"\xed\xa0\x80", b"\xff", b"\xe2\x80\xae", b"a\x00"])
def test_broken_utf8_inside_a_certificate_is_refused(name):
    """A5: overlong forms and surrogates never become text."""
    good = authority_to_expression(
        Authority(TypePattern(PITO, parse_name_pattern("placeholder"), None), ALL_ACTIONS)
    )
    forged = write_canonical(good).replace(b"11:placeholder", b"%d:%b" % (len(name), name))
    with pytest.raises(MaiaError):
        authority_from_expression(read_canonical(forged))


def test_case_makes_another_name_and_never_the_same():
    """A5: names are compared byte by byte, so `pito` grants nothing on `PITO`."""
    grant = Authority(TypePattern(PITO, parse_name_pattern("uk.gov.pito"), None), ALL_ACTIONS)
    assert not covers_request(grant, Action.SUBSCRIBE, TypeName(PITO, "uk.gov.PITO", "0"))


def test_the_same_friendly_name_under_another_key_is_another_name():
    """A6: a grant on PITO's type says nothing of Mallory's type of the same name."""
    grant = Authority(TypePattern(PITO, parse_name_pattern("uk.gov.pito.Numberplate"), None), ALL_ACTIONS)
    for owner in (MALLORY, QuorumId(PITO.key)):
        assert not covers_request(grant, Action.SUBSCRIBE, TypeName(owner, "uk.gov.pito.Numberplate", "0"))
        other = Authority(
            TypePattern(owner, parse_name_pattern("uk.gov.pito.Numberplate"), None), ALL_ACTIONS
        )
        assert intersect(grant, other) is None


@pytest.mark.parametrize(
    "text",
    [
        PITO.key.hex(),
        f"ed25519:{PITO.key.hex().upper()}",
        f"ED25519:{PITO.key.hex()}",
        f"ed25519:0x{PITO.key.hex()}",
        f"ed25519:{PITO.key.hex()} ",
        f" ed25519:{PITO.key.hex()}",
        f"ed25519:{PITO.key.hex()}\n",
        f"ed25519:{PITO.key.hex()[:-2]}",
        f"ed25519:{PITO.key.hex()}00",
        f"quorum:{PITO.key.hex()}",
        "ed25519:" + "\u0663" * 64,
        "",
    ],
)
def test_a_key_has_one_text_form(text):
    """A6: another spelling of a key is refused rather than understood."""
    with pytest.raises(BadKey):
        principal_from_text(text)


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x04" + PITO.key + PITO.key,
        b"\x02" + PITO.key,
        PITO.key.hex().encode(),
        PITO.key[:31],
        PITO.key + b"\x00",
        b"",
    ],
)
def test_a_key_has_one_binary_form(encoded):
    """A6: compressed points of other curves, hexadecimal and padded keys are no keys."""
    with pytest.raises(BadKey):
        principal_from_bytes(encoded)
    for expression in ((b"ed25519", encoded), (b"quorum", encoded), (b"ed25519", PITO.key, b""), PITO.key):
        with pytest.raises(MaiaError):
            OWNER.read(expression)


@pytest.mark.parametrize("control", [*map(chr, range(32)), "\x7f", "\x85", "\u2028", "\u2029"])
def test_control_characters_never_reach_a_name_a_pattern_or_a_message(control):
    """A7: they are refused, and the refusal shows them escaped."""
    for attempt in (
        lambda: TypeName(PITO, f"a{control}b", "0"),
        lambda: TopicName(PITO, f"/a{control}b"),
        lambda: TypeName(PITO, "a", f"0{control}"),
        lambda: parse_name_pattern(f"a{control}*"),
        lambda: principal_from_text(f"ed25519:{control}"),
    ):
        with pytest.raises(MaiaError) as refused:
            attempt()
        assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    "version",
    [
        "00",
        "1",
        "-0",
        VERSION.upper(),
        "{" + VERSION + "}",
        VERSION.replace("-", ""),
        f"urn:uuid:{VERSION}",
        " 0",
    ],
)
def test_a_version_has_one_form(version):
    """A5: other spellings of a UUID are not the same version; they are none."""
    with pytest.raises(BadName):
        TypeName(PITO, "a", version)


def test_pattern_intersection_is_exact_on_every_short_pair():
    """A8: all pairs of short patterns, all short names; the random version is among the laws."""
    fragments = ["a", "b", "ab", "ba", "aa"]
    texts = [
        "*",
        *fragments,
        *(f"{f}*" for f in fragments),
        *(f"*{f}" for f in fragments),
        *(f"*{f}*" for f in fragments),
    ]
    texts += [f"{f}*{g}" for f in fragments for g in fragments]
    names = ["", *(format(n, "b").translate({48: "a", 49: "b"})[1:] for n in range(2, 64))]
    patterns = [parse_name_pattern(text) for text in texts]
    matched = {pattern: {name for name in names if pattern.matches(name)} for pattern in patterns}
    for one in patterns:
        for other in patterns:
            both = one.intersection(other)
            found = set() if both is None else {name for name in names if both.matches(name)}
            assert found == matched[one] & matched[other], (str(one), str(other))
