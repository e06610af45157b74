"""Sealed filters: who opens which part, and what happens to one that was touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.canonical import write_canonical
from maia.errors import MaiaError
from maia.events import AttributeUid
from maia.predicates import (
    ALWAYS,
    AllOf,
    Comparison,
    Exists,
    Membership,
    Operator,
    predicate_to_expression,
)
from maia.sealing.filters.proofs import (
    OpenedProof,
    SealedOffer,
    SealedProof,
    _bound_to,
    check_made_by_a_member,
    open_proof,
    seal_proof,
)
from maia.sealing.filters.sealed_filters import (
    PART_BYTES_MAX,
    SealedFilter,
    SealedPart,
    _frame_of,
    joint_key,
    keyed_mark,
    open_filter,
    parts_of,
    seal_box,
)
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.secrets import Secret
from maia.testing.refusals import raises
from support.sealed_filters import EPOCH, TYPE, random_from, ring, sealed

PLATE, PLACE = AttributeUid("plate"), AttributeUid("place")
SUSPECT = Comparison(PLATE, Operator.EQ, "AE05 XYZ")
SOHO = Comparison(PLACE, Operator.EQ, "Soho")
BOTH = AllOf((SUSPECT, SOHO))
EVERYTHING = ring(None, PLATE, PLACE)
PROOF = OpenedProof(b"a signed request", (b"a certificate", b"another"))


def proof_for(filter_, *uids):
    found = seal_proof(filter_, PROOF, uids=frozenset(uids), keys=EVERYTHING, random=random_from("proof"))
    assert found is not None
    return found


def test_a_part_that_is_too_long_is_left_out():
    long = Membership(PLATE, frozenset(f"{number:040}" for number in range(PART_BYTES_MAX // 40)))
    assert [part.uids for part in parts_of(AllOf((long, SOHO)))] == [(PLACE,)]


def test_parts_that_fit_alone_and_not_together_are_left_out():
    texts = [f"{number:040}" for number in range(PART_BYTES_MAX // 50)]
    long, other = (Membership(PLATE, frozenset(some)) for some in (texts[::2], texts[1::2]))
    assert [part.uids for part in parts_of(long)] == [(PLATE,)]
    assert parts_of(AllOf((long, other, Membership(PLATE, frozenset(texts))))) == ()


def test_operands_of_about_the_same_length_look_alike():
    lengths = {
        len(sealed(Comparison(PLACE, Operator.EQ, "x" * size), EVERYTHING).parts[0].box)
        for size in range(1, 20)
    }
    assert len(lengths) == 1


def test_marks_differ_by_key_epoch_attribute_and_type():
    plate = sealed(Exists(PLATE), EVERYTHING).parts[0].mark
    later = ring(None, PLATE, epochs=(EPOCH, EPOCH + 1))
    other = ring(None, PLATE, type_id=b"O" * 32)
    marks = {
        plate,
        sealed(Exists(PLACE), EVERYTHING).parts[0].mark,
        sealed(Exists(PLATE), later, epoch=EPOCH + 1).parts[0].mark,
        sealed(Exists(PLATE), other).parts[0].mark,
        sealed(Exists(PLATE), EVERYTHING, by_attribute=False).parts[0].mark,
    }
    assert len(marks) == 5


# ------------------------------------------------------------ what was touched


def altered(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


PLAIN = sealed(BOTH, EVERYTHING)
OTHER = sealed(AllOf((Exists(PLATE), Exists(PLACE))), EVERYTHING, random=random_from("other"))
TOUCHED = {
    "a part from another filter": replace(PLAIN, parts=(PLAIN.parts[0], OTHER.parts[1])),
    "another box under the same mark": replace(
        PLAIN, parts=(PLAIN.parts[0], replace(PLAIN.parts[1], box=OTHER.parts[1].box))
    ),
    "a part left out": replace(PLAIN, parts=PLAIN.parts[1:]),
    "a part more": replace(
        PLAIN,
        parts=(SealedPart((), b"m" * 16, b"b" * 64), *PLAIN.parts),
    ),
    "another sealing": replace(PLAIN, id=OTHER.id),
    "a mark altered": replace(
        PLAIN, parts=(PLAIN.parts[0], replace(PLAIN.parts[1], mark=altered(PLAIN.parts[1].mark)))
    ),
    "a box altered": replace(
        PLAIN, parts=(PLAIN.parts[0], replace(PLAIN.parts[1], box=altered(PLAIN.parts[1].box)))
    ),
    "a box cut": replace(PLAIN, parts=(PLAIN.parts[0], replace(PLAIN.parts[1], box=PLAIN.parts[1].box[:-1]))),
    "another attribute": replace(
        PLAIN, parts=(PLAIN.parts[0], replace(PLAIN.parts[1], uids=(AttributeUid("plate2"),)))
    ),
}


@pytest.mark.parametrize("what", TOUCHED)
@pytest.mark.parametrize("groups", [(PLATE,), (PLACE, PLATE), (None, PLACE, PLATE)])
def test_a_filter_that_was_touched_does_not_open(what, groups):
    """A46: parts are bound to each other, to the sealing, the type and the epoch."""
    if what == "another attribute" and PLACE not in groups:
        assert open_filter(TOUCHED[what], ring(*groups)).opened == ALWAYS  # no key for what it now names
        return
    with raises("SEALING-FILTER-DOES-NOT-OPEN"):
        open_filter(TOUCHED[what], ring(*groups))


@pytest.mark.parametrize("what", TOUCHED)
def test_the_type_s_group_sees_that_a_filter_was_touched_without_a_key_of_its_parts(what):
    """A67: no member outside the group makes, widens or alters an interest."""
    proof = proof_for(PLAIN, PLATE, PLACE)
    assert check_made_by_a_member(PLAIN, proof, ring(None))
    with raises("SEALING-NOT-BY-A-MEMBER"):
        check_made_by_a_member(TOUCHED[what], proof, ring(None))


def test_a_filter_of_another_type_or_epoch_does_not_open():
    """A46, A48."""
    both = ring(None, PLATE, PLACE, epochs=(EPOCH, EPOCH + 1))
    with raises("SEALING-FILTER-DOES-NOT-OPEN"):
        open_filter(replace(sealed(BOTH, both), epoch=EPOCH + 1), both)
    other = ring(None, PLATE, PLACE, type_id=b"O" * 32)
    with raises("SEALING-FILTER-DOES-NOT-OPEN"):
        open_filter(replace(sealed(BOTH, both), type_id=b"O" * 32), other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SealedPart((PLATE, PLACE), b"m" * 16, b"b" * 64),
        lambda: SealedPart((PLATE, PLATE), b"m" * 16, b"b" * 64),
        lambda: SealedPart((AttributeUid("~mark"),), b"m" * 16, b"b" * 64),
        lambda: SealedPart((PLATE,), b"m" * 15, b"b" * 64),
        lambda: SealedPart((PLATE,), b"m" * 16, b""),
        lambda: replace(PLAIN, parts=PLAIN.parts[::-1]),
        lambda: replace(PLAIN, parts=(PLAIN.parts[0], PLAIN.parts[0])),
        lambda: replace(PLAIN, id=b"short"),
        lambda: SealedFilter(b"T", EPOCH, b"i" * 16, ()),
    ],
)
def test_only_the_one_form_is_read(make):
    with raises("PROTOCOL-SEALED-FILTER"):
        make()


def made_by_a_member(uids, mark_of, box_of):
    """Return a filter with one part as a member who has the key could make it up."""
    key = joint_key(EVERYTHING, TYPE, uids, EPOCH)
    assert key is not None
    bare = SealedFilter(
        TYPE, EPOCH, b"i" * 16, (SealedPart(uids, keyed_mark(key, written(mark_of)), b"b" * 64),)
    )
    box = seal_box(
        key, written(box_of), bound_to=_frame_of(bare), context=bare.id, block=64, random=random_from()
    )
    return replace(bare, parts=(replace(bare.parts[0], box=box),))


def written(predicate):
    return write_canonical(predicate_to_expression(predicate))


def test_a_part_that_is_not_what_its_mark_says_does_not_open():
    """A67: a member that has a key must not pass one filter off as another towards those who have none."""
    assert open_filter(made_by_a_member((PLATE,), SUSPECT, SUSPECT), EVERYTHING).opened == SUSPECT
    with raises("SEALING-FILTER-DOES-NOT-OPEN"):
        open_filter(made_by_a_member((PLATE,), Exists(PLATE), SUSPECT), EVERYTHING)


def test_a_part_that_uses_other_attributes_than_it_names_does_not_open():
    """A46: readers of plates are not made to match on places."""
    with raises("SEALING-FILTER-DOES-NOT-OPEN"):
        open_filter(made_by_a_member((PLATE,), SOHO, SOHO), EVERYTHING)


def test_a_key_of_two_attributes_follows_from_both_and_is_neither():
    """A48: a member that has one of the two keys, and knows how it is done, is no step further."""
    both = joint_key(EVERYTHING, TYPE, (PLACE, PLATE), EPOCH)
    assert both is not None
    for uids in [(PLACE,), (PLATE,), (None,), (PLATE, PLACE), (None, PLACE, PLATE)]:
        assert joint_key(EVERYTHING, TYPE, uids, EPOCH) != both
    for changed in (PLACE, PLATE):
        other = ring(None, PLATE, PLACE)
        other.hold(GroupId(TYPE, changed), EPOCH, Secret.from_bytes(bytes(range(32))))
        assert joint_key(other, TYPE, (PLACE, PLATE), EPOCH) != both


# ------------------------------------------------------------ proofs


def test_a_proof_opens_for_who_reads_all_that_it_names():
    proof = proof_for(PLAIN, PLATE)
    assert open_proof(PLAIN, proof, ring(None, PLATE)) == PROOF
    for groups in [(), (None,), (PLATE,), (None, PLACE)]:
        assert open_proof(PLAIN, proof, ring(*groups)) is None


def test_a_proof_belongs_to_one_filter_and_one_offer():
    """A46, A67: the request of one interest proves no other one."""
    proof, offer = proof_for(PLAIN, PLATE), SealedOffer(TYPE, EPOCH, b"o" * 16)
    for elsewhere in (OTHER, offer, replace(PLAIN, parts=())):
        with raises("SEALING-PROOF-DOES-NOT-OPEN"):
            open_proof(elsewhere, proof, EVERYTHING)
        with raises("SEALING-NOT-BY-A-MEMBER"):
            check_made_by_a_member(elsewhere, proof, EVERYTHING)


def test_who_lacks_a_key_for_the_proof_sends_a_tag_alone():
    proof = seal_proof(PLAIN, PROOF, uids=frozenset({PLATE}), keys=ring(None), random=random_from())
    assert proof is not None
    assert proof.box == b""
    assert check_made_by_a_member(PLAIN, proof, ring(None))
    with raises("SEALING-PROOF-DOES-NOT-OPEN"):
        open_proof(PLAIN, proof, EVERYTHING)


def test_a_box_that_holds_something_else_is_refused_without_a_traceback():
    key = joint_key(EVERYTHING, TYPE, (None,), EPOCH)
    assert key is not None
    for data in (b"", b"not canonical", b"(5:proof)", b"(5:proof1:r(1:a(1:b)))", b"(5:proof1:r1:c)"):
        box = seal_box(
            key, data, bound_to=_bound_to(PLAIN, ()), context=PLAIN.id, block=64, random=random_from()
        )
        with pytest.raises(MaiaError, match="no proof"):
            open_proof(PLAIN, SealedProof((), box, b"t" * 16), EVERYTHING)


def test_nothing_of_a_filter_shows_in_a_repr():
    filter_ = sealed(BOTH, EVERYTHING)
    shown = repr(filter_) + repr(open_filter(filter_, EVERYTHING)) + repr(proof_for(PLAIN, PLATE))
    assert "AE05" not in shown
    assert "Soho" not in shown
