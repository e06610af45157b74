"""Which certificates fall with a new policy, and which would be issued?"""

from __future__ import annotations

from maia.credentials import Action, AuthorisationCertificate, TypeName, Validity, certificate_to_bytes, issue
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.predicates.syntax import Comparison, Operator
from maia.roles import parse_policy, possible_rights
from maia.spark.closure.policy_change import under_policy
from maia.spark.closure.sources import RegisterLine
from maia.spark.closure.what_if import affected
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.chains import ALICE, BOB, CAROL, KEYS, NOON, OWNER

ATTRIBUTES = tuple(Attribute(name, name, Kind.STRING) for name in ("plate", "place", "seen"))
SIGHTING = verify_definition(
    sign_definition(TypeDefinition(TypeName(OWNER, "met.Sighting", "0"), None, ATTRIBUTES), KEYS[OWNER]),
    at=NOON,
)
TEXT = """\
policy "Met"
type Sighting = met.Sighting
fact order(who: principal, plate: string)
fact clerk(who: principal)
role tracker(plate: string)
rule tracker(plate)
    while order(holder, plate)
    until revoked
role clerks()
rule clerks()
    while clerk(holder)
    until revoked
grant tracker(plate)
    may subscribe to Sighting({attributes})
    where plate == $plate
{more}end
"""
CLERKS = "grant clerks()\n    may subscribe to Sighting(seen)\n"


def policy(attributes: str, more: str):
    text = TEXT.format(attributes=attributes, more=more)
    return parse_policy(text, origin="met", domain=OWNER, types={"met.Sighting": SIGHTING})


OLD, NEW = policy("plate, place", CLERKS), policy("plate, seen", "")
TODAY = Validity(NOON, Instant(NOON + 3_600_000_000))


def entry(holder, role: str, *arguments: str) -> RegisterLine:
    (right,) = possible_rights(OLD, role, arguments, holder, NOON)
    certificate = AuthorisationCertificate(OWNER, holder, False, right.authority, TODAY)
    data = certificate_to_bytes(issue(certificate, KEYS[OWNER]))
    return RegisterLine(data, str(holder), right.grant.id, "5f", None)


REGISTER = [
    entry(ALICE, "tracker", "AE05 XYZ"),
    entry(BOB, "tracker", "LC51 ABC"),
    entry(CAROL, "clerks"),
]


def test_what_a_grant_no_longer_gives_falls_and_what_it_gives_instead_has_the_members_own_argument():
    found = under_policy(NEW, REGISTER, in_force=OLD, now=NOON)
    assert (found.fallen, found.issued, found.notes) == (3, 2, ())
    issued = {one.certificate.subject: one.certificate for one in found.pools.after}
    assert issued[ALICE].authority.restriction == Comparison(AttributeUid("plate"), Operator.EQ, "AE05 XYZ")
    assert issued[BOB].authority.attributes == {"plate", "seen"}
    assert issued[BOB].authority.actions == {Action.SUBSCRIBE}
    changed, _ = affected(SIGHTING, found.pools, at=NOON)
    sees = {one.principal: (len(one.before), len(one.after)) for one in changed}
    assert sees == {ALICE: (1, 1), BOB: (1, 1), CAROL: (1, 0)}


def test_without_the_policy_in_force_only_losses_are_known():
    found = under_policy(NEW, REGISTER, in_force=None, now=NOON)
    assert (found.fallen, found.issued) == (3, 0)
    assert "what members would get" in found.notes[0]


def test_the_same_policy_changes_nothing():
    found = under_policy(OLD, REGISTER, in_force=OLD, now=NOON)
    assert (found.fallen, found.issued, found.notes) == (0, 0, ())
    assert affected(SIGHTING, found.pools, at=NOON) == ([], 0)


def test_a_supposed_certificate_counts_nowhere_else():
    """Without being supposed, a certificate that its issuer has not signed grants nothing."""
    found = under_policy(NEW, REGISTER, in_force=OLD, now=NOON)
    from dataclasses import replace

    unsigned = replace(found.pools, before=(), supposed=frozenset())
    assert affected(SIGHTING, unsigned, at=NOON) == ([], 0)
