"""The owner's choice of sealing: what it says, who may change it, and that it is never given up."""

from dataclasses import replace
from itertools import permutations

import pytest

from maia.canonical import write_canonical
from maia.credentials.authority import Action
from maia.testing.refusals import raises
from maia.types import (
    Added,
    BadDefinition,
    BadDefinitionEncoding,
    Cover,
    Sealing,
    SealingLevel,
    TypeHistory,
    definition_from_bytes,
    definition_from_text,
    definition_to_bytes,
    definition_to_text,
    is_weaker,
    next_version,
    sign_definition,
    strongest,
    verify_definition,
)
from maia.types.definition import (
    ADDRESSES_MAX,
    COVER_BYTES_MAX,
    COVER_BYTES_MIN,
    COVER_EVERY_MS_MAX,
    COVER_EVERY_MS_MIN,
    ENVELOPE_UID,
)
from maia.types.encoding import definition_from_body, definition_to_expression
from support.types import CCS, MANAGER, NOON, PITO, attribute, manage, numberplate, version

EVENT = Sealing(SealingLevel.EVENT, PITO.principal)
ATTRIBUTE = Sealing(SealingLevel.ATTRIBUTE, PITO.principal, ("127.0.0.1:7500", "keys.pito.example:7500"))
BLINDED = replace(EVENT, blinded=True)
COVERED = replace(BLINDED, addresses=("127.0.0.1:7500",), cover=Cover(250, 1024))
LEVELS = (None, EVENT, ATTRIBUTE)
COLOUR = attribute("colour", "7")


def sealed(sealing, *, number=0, previous=0, credentials=()):
    return replace(numberplate(number=number, previous=previous, credentials=credentials), sealing=sealing)


def verified(sealing, *, signer=PITO, before=None, **about):
    return verify_definition(sign_definition(sealed(sealing, **about), signer), at=NOON, previous=before)


# ---------------------------------------------------------------- what it says


@pytest.mark.parametrize("sealing", [*LEVELS, BLINDED, COVERED])
def test_a_choice_is_read_back_as_it_was_written(sealing):
    signed = sign_definition(sealed(sealing, credentials=(manage(PITO, MANAGER),)), PITO)
    assert definition_from_bytes(definition_to_bytes(signed)) == signed
    assert definition_from_text(definition_to_text(signed)) == signed
    assert verify_definition(signed, at=NOON).sealing == sealing


def changed(change):
    """Return the bytes of a sealed definition whose fields were changed."""
    fields = list(definition_to_expression(sealed(ATTRIBUTE, credentials=(manage(PITO, MANAGER),))))
    at = next(i for i, one in enumerate(fields) if one[0] == b"sealing")
    change(fields, at)
    return write_canonical(tuple(fields))


@pytest.mark.parametrize(
    "change",
    [
        lambda fields, at: fields.insert(at, fields[at]),
        lambda fields, at: fields.append(fields.pop(at)),
        lambda fields, at: fields.insert(at - 1, fields.pop(at)),
        lambda fields, at: fields.__setitem__(at, (b"sealing", b"none", *fields[at][2:])),
        lambda fields, at: fields.__setitem__(at, (b"sealing", b"Event", *fields[at][2:])),
        lambda fields, at: fields.__setitem__(at, (b"sealing", b"event")),
        lambda fields, at: fields.__setitem__(at, (b"sealing",)),
        lambda fields, at: fields.__setitem__(at, (*fields[at], (b"port", b"1"))),
        lambda fields, at: fields.__setitem__(at, (*fields[at], (b"at", b"a", b"b"))),
        lambda fields, at: fields.__setitem__(at, (*fields[at][:3], (b"at", b"a") * (ADDRESSES_MAX + 1))),
        lambda fields, at: fields.__setitem__(
            at, (*fields[at][:3], *((b"at", b"%d" % number) for number in range(ADDRESSES_MAX + 1)))
        ),
    ],
)
def test_another_way_of_writing_it_is_refused(change):
    with pytest.raises(BadDefinitionEncoding):
        definition_from_body(changed(change))


@pytest.mark.parametrize(
    "options",
    [
        [(b"blinded", b"")],
        [(b"blinded",), (b"blinded",)],
        [(b"blinded",), (b"at", b"a")],
        [(b"cover", b"250", b"1024"), (b"blinded",)],
        [(b"blinded",), (b"cover", b"0250", b"1024")],
        [(b"blinded",), (b"cover", b"250", b"-1024")],
        [(b"blinded",), (b"cover", b"250", b"9" * 10)],
        [(b"blinded",), (b"cover", b"250")],
        [(b"blinded",), (b"cover", b"250", b"1024"), (b"cover", b"250", b"1024")],
    ],
)
def test_another_way_of_writing_that_a_type_is_blinded_is_refused(options):
    fields = list(definition_to_expression(sealed(EVENT)))
    at = next(i for i, one in enumerate(fields) if one[0] == b"sealing")
    fields[at] = (*fields[at], *options)
    with raises("TYPE-ENCODING", "TYPE-SEALING"):
        definition_from_body(write_canonical(tuple(fields)))


def test_only_what_is_sealed_as_a_whole_is_blinded_and_only_what_is_blinded_is_covered():
    with raises("TYPE-SEALING", match="event level"):
        replace(ATTRIBUTE, blinded=True)
    with raises("TYPE-SEALING", match="for blinded types"):
        replace(EVENT, cover=Cover(250, 1024))
    with pytest.raises(BadDefinition, match="uid"):
        replace(sealed(BLINDED), attributes=(attribute("envelope", ENVELOPE_UID),))


@pytest.mark.parametrize(
    ("every_ms", "size_bytes"),
    [
        (COVER_EVERY_MS_MIN - 1, 1024),
        (COVER_EVERY_MS_MAX + 1, 1024),
        (250, COVER_BYTES_MIN // 2),
        (250, COVER_BYTES_MAX * 2),
        (250, 1000),
    ],
)
def test_the_rate_and_size_of_cover_have_limits(every_ms, size_bytes):
    with raises("TYPE-SEALING"):
        Cover(every_ms, size_bytes)
    Cover(COVER_EVERY_MS_MIN, COVER_BYTES_MIN)
    Cover(COVER_EVERY_MS_MAX, COVER_BYTES_MAX)


@pytest.mark.parametrize(
    "addresses",
    [("",), ("a b",), ("a\n",), ("é",), ("x" * 257,), ("a", "a"), tuple(map(str, range(ADDRESSES_MAX + 1)))],
)
def test_an_address_is_short_visible_and_named_once(addresses):
    with raises("TYPE-SEALING"):
        Sealing(SealingLevel.EVENT, PITO.principal, addresses)


def test_as_many_addresses_as_allowed_are_allowed():
    most = Sealing(SealingLevel.EVENT, PITO.principal, tuple(map(str, range(ADDRESSES_MAX))))
    assert verified(most).sealing == most


# ---------------------------------------------------------------- it is never given up


@pytest.mark.parametrize(
    ("earlier", "later", "is_refused"),
    [
        (EVENT, BLINDED, False),
        (BLINDED, COVERED, False),
        (COVERED, replace(COVERED, cover=Cover(5000, 512)), False),
        (BLINDED, EVENT, True),
        (COVERED, BLINDED, True),
        (BLINDED, ATTRIBUTE, True),
        (ATTRIBUTE, BLINDED, True),
    ],
)
def test_a_later_version_stays_blinded_and_covered(earlier, later, is_refused):
    before = verified(earlier)
    if not is_refused:
        assert verified(later, number=1, before=before).sealing == later
        return
    with raises("TYPE-SEALING-WEAKENED"):
        verified(later, number=1, before=before)


@pytest.mark.parametrize("order", list(permutations([None, EVENT, BLINDED, ATTRIBUTE])))
def test_every_order_of_versions_gives_one_strongest_choice(order):
    assert strongest(order) == ATTRIBUTE


def test_a_history_seals_at_the_strongest_level_of_any_version():
    """A29: an older version stays usable, and does not take the seal off."""
    history = TypeHistory(verified(None).type_id)
    assert history.sealing is None
    assert history.remember(verified(None)).sealing is None
    both = history.remember(verified(ATTRIBUTE, number=1)).remember(verified(None))
    assert both.sealing == ATTRIBUTE
    branch = both.remember(verified(EVENT, number=2, previous=0))
    assert branch.sealing == ATTRIBUTE


def test_among_equal_levels_the_later_version_names_the_manager():
    elsewhere = replace(ATTRIBUTE, manager=CCS.principal)
    earlier, later = verified(ATTRIBUTE), verified(elsewhere, number=1)
    for one, other in ((earlier, later), (later, earlier)):
        assert TypeHistory(earlier.type_id).remember(one).remember(other).sealing == elsewhere


def test_levels_have_an_order():
    assert [is_weaker(one, than=EVENT) for one in LEVELS] == [True, False, False]
    assert [is_weaker(one, than=None) for one in LEVELS] == [False, False, False]
    assert strongest([]) is None
    assert strongest([ATTRIBUTE, EVENT, None]) == ATTRIBUTE


def test_the_next_version_inherits_the_seal():
    assert next_version(sealed(ATTRIBUTE), (), version=version(1)).sealing == ATTRIBUTE
    assert next_version(sealed(EVENT), (), version=version(1), sealing=ATTRIBUTE).sealing == ATTRIBUTE


# ---------------------------------------------------------------- who may change it


def test_a_principal_that_holds_every_right_may_change_the_seal():
    before = verified(EVENT)
    rights = (manage(PITO, MANAGER),)
    assert verified(ATTRIBUTE, signer=MANAGER, number=1, credentials=rights, before=before).sealing


def test_some_rights_are_enough_while_the_seal_stays():
    some = (manage(PITO, MANAGER, Action.MANAGE_ADD),)
    base = sealed(EVENT)
    new = next_version(base, [Added(COLOUR)], version=version(1), credentials=some)
    assert (
        verify_definition(sign_definition(new, MANAGER), at=NOON, previous=verified(EVENT)).sealing == EVENT
    )
