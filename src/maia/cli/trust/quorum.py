"""`maia quorum`: let k of n organisations own networks and types together, and replace members."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.cli.command import arg, need
from maia.cli.inputs import BadFile, command_group, read_principal, read_text, write_new
from maia.cli.output import Answer, row, rows
from maia.cli.trust.key import FORCE, KEY_FILE, open_key

if TYPE_CHECKING:
    from maia.credentials import QuorumEvidence, SigningKey, Threshold


app = command_group("Found quorums, k of n keys that own together, and replace their members.")

SALT_BYTES: Final = 16

NEEDED = need("How many members must agree.", "--needed", min=1)
MEMBERS = need("Key or .pub file of a member; repeat it for each.", "--member")
QUORUM_FILE = arg("A constitution: a file of `maia quorum`.")
OUT = need("The file to write; it ends in .quorum.", "--out", "-o")


@app.command()
def found(needed: int = NEEDED, members: list[str] = MEMBERS, out: Path = OUT, force: bool = FORCE) -> Answer:
    """Found a quorum: its name, which never changes, is the digest of this constitution.

    Examples:
        maia quorum found --needed 2 --member met.pub --member kent.pub --member essex.pub -o
          police.quorum
    """
    from maia.credentials import found_quorum

    evidence = found_quorum(_threshold(needed, members), salt=os.urandom(SALT_BYTES))
    return _save(evidence, out, force=force)


@app.command()
def change(
    file: Path = QUORUM_FILE,
    needed: int = NEEDED,
    members: list[str] = MEMBERS,
    key: Path = KEY_FILE,
    out: Path = OUT,
    force: bool = FORCE,
) -> Answer:
    """Propose other members, and sign it; it counts when enough of the present members have signed.

    Examples:
        maia quorum change police.quorum --needed 2 --member met.pub --member kent.pub --member
          surrey.pub -k met.key -o police-2.quorum
    """
    from maia.credentials import QuorumEvidence, propose_change, quorum_of, sign_change, verify_constitution

    before = _read(file)
    current = verify_constitution(before, quorum=quorum_of(before))
    signed = sign_change(propose_change(current, _threshold(needed, members)), [_member(key, before)])
    return _save(QuorumEvidence(before.founding, (*before.changes, signed)), out, force=force)


@app.command()
def sign(file: Path = QUORUM_FILE, key: Path = KEY_FILE) -> Answer:
    """Sign the last change in a file as one of the members before it, and put the signature into the file.

    Examples:
        maia quorum sign police-2.quorum -k kent.key
    """
    from maia.credentials import QuorumEvidence, cosign

    evidence = _read(file)
    agreed = QuorumEvidence(evidence.founding, evidence.changes[:-1])
    return _save(cosign(evidence, _member(key, agreed)), file, force=True)


@app.command()
def show(file: Path = QUORUM_FILE) -> Answer:
    """Show the members of a quorum, and whether the last change has enough signatures.

    Examples:
        maia quorum show police.quorum
    """
    return _described(_read(file))


def _threshold(needed: int, members: list[str]) -> Threshold:
    from maia.credentials import Threshold

    return Threshold(needed, tuple(read_principal(word) for word in members))


def _member(key: Path, agreed: QuorumEvidence) -> SigningKey:
    """Return a key; refuse one whose signature would make the whole change worthless."""
    from maia.credentials import quorum_of, verify_constitution
    from maia.credentials.chains.quorum import leaves

    opened = open_key(key)
    current = verify_constitution(agreed, quorum=quorum_of(agreed))
    if opened.principal not in set(leaves(current.threshold)):
        raise BadFile(f"`{key}` is not the key of a present member, and only those can sign a change")
    return opened


def _read(file: Path) -> QuorumEvidence:
    from maia.credentials import evidence_from_text

    return evidence_from_text(read_text(file))


def _save(evidence: QuorumEvidence, out: Path, *, force: bool) -> Answer:
    from maia.config.input_files import QUORUM_SUFFIX
    from maia.credentials import evidence_to_text

    if out.suffix != QUORUM_SUFFIX:
        raise BadFile(f"`{out}` does not end in `{QUORUM_SUFFIX}`, by which constitutions are found")
    write_new(out, evidence_to_text(evidence), overwrite=force)
    return Answer(_described(evidence), row("written to", out, file=out))


def _described(evidence: QuorumEvidence) -> Answer:
    """Return the members of a quorum; where the last change lacks signatures, the proposed ones."""
    from maia.credentials import QuorumEvidence, QuorumNotReached, quorum_of, verify_constitution

    quorum, signed = quorum_of(evidence), len(evidence.changes[-1].signatures) if evidence.changes else 0
    is_agreed = True
    try:
        current = verify_constitution(evidence, quorum=quorum)
    except QuorumNotReached:
        is_agreed = False
        current = verify_constitution(QuorumEvidence(evidence.founding, evidence.changes[:-1]), quorum=quorum)
    members, needed = current.threshold.members, current.threshold.needed
    text = f"number {current.sequence}: {needed} of {len(members)} members"
    missing = f"a change with {signed} signatures, and {needed} are needed: sign it"
    return Answer(
        rows(quorum=quorum),
        row("constitution", text, sequence=current.sequence, needed=needed),
        row("member", members, members=members),
        row("proposed", None if is_agreed else missing, agreed=is_agreed, signatures=signed),
    )
