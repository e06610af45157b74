"""What the console says about rights is what the kernel decides, then, now and without a certificate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from maia.console.decisions import ask, preview, who_sees
from maia.console.pages.overview import ends_soon
from maia.console.principal import RegisterEntry, judged
from maia.console.rights import AskedInConsole, ShownNames, chain_above, filtered, graph_of, state_of
from maia.credentials import (
    Action,
    OnlineTest,
    SignedCertificate,
    SigningKey,
    TestKind,
    TypeName,
    TypePattern,
    Validity,
    issue,
)
from maia.credentials.names import NamePattern
from maia.credentials.statements import RevocationList, sign_statement
from maia.events import Attribute, Instant, Kind
from maia.policy import Audience, Request
from maia.profile.address_book import OWN, AddressBook, KnownName
from maia.testing import grant
from maia.types import TypeDefinition, sign_definition, verify_definition
from maia.validity import Monitor

NOW, HOUR = Instant.parse("2026-11-16T12:00:00Z"), 3_600_000_000
OWNER, BRANCH, CLERK, TEMP = (SigningKey.from_seed(bytes([one]) * 32) for one in b"obct")
ATTRIBUTES = (Attribute("plate", "1", Kind.STRING), Attribute("place", "2", Kind.STRING))
NUMBERPLATE = verify_definition(
    sign_definition(TypeDefinition(TypeName(OWNER.principal, "Numberplate", "0"), None, ATTRIBUTES), OWNER),
    at=NOW,
)
ANY = TypePattern(OWNER.principal, NamePattern("Numberplate"), None)


def granted(
    issuer: SigningKey, subject: SigningKey, *uids: str, delegable: bool = False
) -> SignedCertificate:
    return grant(issuer, subject, ANY, Action.SUBSCRIBE, attributes=frozenset(uids), may_delegate=delegable)


TO_BRANCH = granted(OWNER, BRANCH, "1", "2", delegable=True)
TO_CLERK = granted(BRANCH, CLERK, "1", "2")
TO_TEMP = granted(BRANCH, TEMP, "1")
PAST_BRANCH = granted(OWNER, CLERK, "1")


def test_a_preview_names_all_who_lose_and_what_is_left_to_those_with_another_way() -> None:
    entries = [RegisterEntry(one) for one in (TO_BRANCH, TO_CLERK, TO_TEMP, PAST_BRANCH)]
    found = preview(entries[0], entries, [NUMBERPLATE], [], NOW)
    lost = {one.principal: (one.is_whole, one.attributes) for one in found.losses}
    assert lost == {
        BRANCH.principal: (True, ("place", "plate")),
        CLERK.principal: (False, ("place",)),  # the owner has granted the plate directly
        TEMP.principal: (True, ("plate",)),
    }
    assert set(found.falls) == {TO_BRANCH.id, TO_CLERK.id, TO_TEMP.id}
    assert found.left_out == 0
    leaf = preview(entries[2], entries, [NUMBERPLATE], [], NOW)
    assert [one.principal for one in leaf.losses] == [TEMP.principal]
    assert leaf.falls == (TO_TEMP.id,)


def test_a_question_about_an_earlier_moment_has_the_answer_of_that_moment() -> None:
    revoked = RegisterEntry(TO_BRANCH, revoked_at=Instant(NOW - HOUR))
    entries = [revoked, RegisterEntry(TO_TEMP)]
    request = Request(TEMP.principal, Action.SUBSCRIBE, NUMBERPLATE.name, NUMBERPLATE)
    then = ask(request, entries, Instant(NOW - 2 * HOUR), Audience.OWNER)
    assert (then.is_permitted, then.attributes) == (True, {"plate": True, "place": False})
    now = ask(request, entries, NOW, Audience.OWNER)
    assert (now.is_permitted, now.code) == (False, "POLICY-REVOKED")
    assert TO_BRANCH.id.hex() in [certificate for _, certificate in now.reasons]


def test_the_graph_has_owners_first_and_the_way_to_a_certificate_begins_at_the_owner() -> None:
    entries = [RegisterEntry(one) for one in (TO_TEMP, TO_CLERK, TO_BRANCH, PAST_BRANCH)]
    graph = graph_of(entries)
    assert [set(layer) for layer in graph.layers] == [
        {str(OWNER.principal)},
        {str(BRANCH.principal), str(CLERK.principal)},
        {str(TEMP.principal)},
    ]
    assert graph_of(entries, nodes_max=2).left_out == 2
    assert [one.signed for one in chain_above(entries[0], entries, NOW)] == [TO_BRANCH]
    clerk = KnownName(CLERK.principal, "clerk", OWN, Path("bank/clerk.pub"))
    names = ShownNames(AddressBook({str(CLERK.principal): clerk}), {NUMBERPLATE.type_id: NUMBERPLATE})
    by_person = filtered(entries, AskedInConsole(person="clerk", attribute="place"), names, NOW)
    assert [one.signed for one in by_person] == [TO_CLERK]


def test_who_sees_what_is_the_kernels_answer_with_the_way_that_leads_to_it() -> None:
    entries = [RegisterEntry(one) for one in (TO_BRANCH, TO_CLERK, TO_TEMP, PAST_BRANCH)]
    people = [one.principal for one in (OWNER, BRANCH, TEMP, SigningKey.from_seed(b"x" * 32))]
    found, left_out = who_sees(NUMBERPLATE, entries, people, NOW)
    assert {one.principal: dict(one.attributes) for one in found} == {
        OWNER.principal: {"plate": "shown", "place": "shown"},
        BRANCH.principal: {"plate": "shown", "place": "shown"},
        TEMP.principal: {"plate": "shown", "place": "hidden"},
    }
    assert found[2].chains == ((TO_BRANCH.id.hex(), TO_TEMP.id.hex()),)
    assert (found[0].chains, left_out) == ((), 0)


def test_a_revocation_that_only_a_list_tells_of_counts_as_one_in_the_register_does() -> None:
    tests = (OnlineTest(TestKind.TIMED_CRL, OWNER.principal),)
    said = replace(TO_BRANCH.certificate, validity=Validity(None, None, tests))
    tested, heard = RegisterEntry(issue(said, OWNER)), Monitor()
    assert state_of(judged(tested, heard, NOW), NOW) == "unconfirmed"
    period = Validity(Instant(NOW - HOUR), Instant(NOW + HOUR))
    for number, revoked, state in ((1, frozenset[bytes](), "valid"), (2, {tested.signed.id}, "revoked")):
        heard.receive(
            sign_statement(RevocationList(OWNER.principal, number, period, frozenset(revoked)), OWNER), NOW
        )
        found = judged(tested, heard, NOW)
        assert (state_of(found, NOW), found.as_of) == (state, period.not_before)
    assert who_sees(NUMBERPLATE, [found, RegisterEntry(TO_TEMP)], [TEMP.principal], NOW) == ([], 0)


def test_types_of_one_name_are_told_apart_by_their_owners() -> None:
    definition = TypeDefinition(TypeName(BRANCH.principal, "Numberplate", "0"), None, ATTRIBUTES)
    other = verify_definition(sign_definition(definition, BRANCH), at=NOW)
    branch = KnownName(BRANCH.principal, "branch", OWN, Path("bank/branch.pub"))
    book = AddressBook({str(BRANCH.principal): branch})
    both = ShownNames(book, {one.type_id: one for one in (NUMBERPLATE, other)})
    digits = str(OWNER.principal).partition(":")[2][:8]
    assert both.by_label == {f"Numberplate@{digits}": NUMBERPLATE, "Numberplate@branch": other}
    assert ShownNames(book, {other.type_id: other}).type(other.type_id.hex()) == "Numberplate"


def test_the_overview_has_what_ends_within_two_weeks_with_its_days_unless_it_was_renewed() -> None:
    def until(days: float, subject: SigningKey) -> RegisterEntry:
        period = Validity(NOW, Instant(NOW + int(days * 24 * HOUR)))
        return RegisterEntry(grant(OWNER, subject, ANY, Action.SUBSCRIBE, validity=period))

    near, soon, later, renewed = until(1.5, CLERK), until(13.5, TEMP), until(15, BRANCH), until(3, BRANCH)
    assert ends_soon([soon, later, near, renewed], NOW) == [(near, 1), (soon, 13)]
