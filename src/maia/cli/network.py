"""`maia network`: who is part of the network, apart from who sees what.

An invitation lets an organisation connect and install its own types, and shows it nothing. A grant
(`maia grant`) shows it events, and ends without its membership.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from maia.cli.command import arg, flag, need, opt
from maia.cli.domain.calls import ReasonText
from maia.cli.inputs import command_group, read_principal
from maia.cli.organisation import DryRun, Org, opened, revoke_and_answer, shown_rights
from maia.cli.output import answer, book
from maia.cli.trust.grants import right_record
from maia.cli.trust.key import Force

if TYPE_CHECKING:
    from maia.credentials import SignedCertificate
    from maia.organisation.joining import Joined

app = command_group("Invite organisations into the network, join one, leave it, and show who is in it.")

Leave: TypeAlias = Annotated[
    bool, typer.Option("--leave", help="Leave the network that the organisation is in, without a question.")
]
Check: TypeAlias = Annotated[
    bool, typer.Option("--check", "--dry-run", help="Try it and say what it would change; change nothing.")
]
Called: TypeAlias = Annotated[
    str | None, typer.Option("--name", help="What you call the other organisation from now on.")
]

_NOT_CONFIRMED: Final = (
    "not asked    whether it was revoked since: the server of its issuer does not answer now"
)
_COMPARE: Final = (
    "check        compare that key with the one the other organisation tells you; then",
    "             `maia key remember {} --name NAME` gives it a name of yours",
)


@app.command()
def invite(
    subject: str = arg("Whom: a .pub file or a key."),
    out: Path = need("The file to hand to the other organisation.", "--out", "-o"),
    days: int = opt("How long it holds.", default=365, min=1, max=3650),
    org: Org = None,
    force: Force = False,
) -> None:
    """Let an organisation connect and publish types of its own; it sees nothing of others by that.

    Examples:
        maia network invite rotterdam.pub -o rotterdam.invite
    """
    made = opened(org).invite(subject, days=days)
    made.save(out, overwrite=force)
    lines = [
        f"invited      {made.subject}",
        f"network      {made.network} of {made.coordinator}",
        f"written to   {out}   (end it with `maia network revoke {subject}`)",
    ]
    record = {"invited": str(made.subject), "network": made.network, "file": str(out)}
    answer(lines, record, as_json=as_json)


@app.command()
def join(
    file: Path = arg("An invitation or a grant, made for this organisation."),
    leave: Leave = False,
    check: Check = False,
    name: Called = None,
    org: Org = None,
) -> None:
    """Use an invitation or a grant: join the network if need be, and keep certificates and types.

    Examples:
        maia network join rotterdam.invite
        maia network join customs.grant --check
    """
    join_and_answer(file, leave=leave, check=check, name=name, org=org, as_json=as_json)


def join_and_answer(
    file: Path, *, leave: bool, check: bool, name: str | None, org: Path | None, as_json: bool
) -> None:
    """Join, after a question where a network is left and a person can answer it."""
    from maia.organisation.joining import WouldLeave

    ours = opened(org)
    known = frozenset(book().keys)
    try:
        joined = ours.join(file, leave=leave or check, is_check=check, name=name)
    except WouldLeave as problem:
        if as_json or not sys.stdin.isatty():
            raise
        typer.echo(problem.message, err=True)
        if not typer.confirm("Leave it?"):
            raise
        joined = ours.join(file, leave=True, name=name)
    is_known = str(joined.offer.grant.domain) in known
    lines = _joined_lines(joined, file, check=check, is_known=is_known)
    answer(lines, _joined_record(joined, check=check), as_json=as_json, whole=not is_known)


def _rights(joined: Joined) -> list[SignedCertificate]:
    """Return what it grants to events, by the certificates to us."""
    from maia.organisation.losses import is_membership

    offer = joined.offer
    return [
        one
        for one in offer.certificates
        if one.certificate.subject == offer.grant.subject and not is_membership(one)
    ]


def _joined_lines(joined: Joined, file: Path, *, check: bool, is_known: bool) -> list[str]:
    offer = joined.offer
    left = joined.left
    network, rights = f"{offer.network.name} of {offer.network.owner}", shown_rights(_rights(joined))
    return [
        *(["checked      nothing was changed; this would be:"] if check else []),
        f"joined       {network}" if left else f"took in      {file}, in network {network}",
        *([f"left         {left.name} of {left.owner}"] if left is not None and joined.ends else []),
        *(f"ended        {one}" for one in joined.ends),
        f"granted by   {offer.grant.domain}",
        *(rights or ([f"types        {' '.join(offer.types)}"] if offer.types else [])),
        *(f"not kept     {one}" for one in offer.unused),
        *(f"note         {one}" for one in joined.notes),
        *([] if joined.is_confirmed else [_NOT_CONFIRMED]),
        *([] if is_known else [line.format(offer.grant.domain) for line in _COMPARE]),
    ]


def _joined_record(joined: Joined, *, check: bool) -> dict[str, object]:
    offer, left = joined.offer, joined.left
    return {
        "network": offer.network.name,
        "coordinator": str(offer.network.owner),
        "left": None if left is None else {"network": left.name, "coordinator": str(left.owner)},
        "ended": list(joined.ends),
        "granted_by": str(offer.grant.domain),
        "types": list(offer.types),
        "rights": [right_record(one) for one in _rights(joined)],
        "certificates": len(offer.certificates),
        "not_kept": list(offer.unused),
        "notes": list(joined.notes),
        "confirmed": joined.is_confirmed,
        "files": joined.files,
        "changed": not check,
    }


@app.command("leave")
def leave_network(
    yes: bool = flag("Do not ask.", "--yes", "-y"), check: Check = False, org: Org = None
) -> None:
    """Leave the network that was joined: the organisation's broker and members go on in its own.

    Examples:
        maia network leave
        maia network leave --check
    """
    ours = opened(org)
    left = ours.network
    ends = ours.leave(is_check=True)
    if not (yes or check) and sys.stdin.isatty() and not as_json:
        typer.echo(f"leaving `{left.name}` of `{left.owner}` ends {', '.join(ends)}", err=True)
        typer.confirm("Leave it?", abort=True)
    if not check:
        ours.leave()
    lines = [
        *(["checked      nothing was changed; this would be:"] if check else []),
        f"left         {left.name} of {left.owner}",
        *(f"ended        {one}" for one in ends),
    ]
    record = {
        "left": {"network": left.name, "coordinator": str(left.owner)}, "ended": list(ends),
        "changed": not check,
    }  # fmt: skip
    answer(lines, record, as_json=as_json)


@app.command()
def show(org: Org = None) -> None:
    """Print the network, its coordinator, the brokers it was joined through, and who was invited.

    Examples:
        maia network show
        maia network show --org hamburg --json
    """
    ours = opened(org)
    invited = [
        {
            "organisation": str(whom),
            "until": str(max(one.certificate.validity.not_after or 0 for one in given)),
        }
        for whom, given in ours.invited().items()
    ]
    is_own = ours.network.owner == ours.principal
    record: dict[str, object] = {
        "network": ours.network.name,
        "coordinator": str(ours.network.owner),
        "joined_through": list(ours.joined_through),
        "invited": invited,
    }
    lines = [
        f"network      {ours.network.name} of {ours.network.owner}{' (our own)' if is_own else ''}",
        *(f"through      {one}" for one in ours.joined_through),
        *(f"invited      {one['organisation']} until {one['until']}" for one in invited),
    ]
    answer(lines, record, as_json=as_json)


@app.command()
def revoke(
    whom: str = arg("The organisation: a name, a .pub file, a key, an invitation."),
    reason: ReasonText = "",
    dry_run: DryRun = False,
    org: Org = None,
) -> None:
    """End the membership of an organisation that was invited, at our own server, which `maia up` runs.

    Examples:
        maia network revoke rotterdam --dry-run
        maia network revoke rotterdam.invite
    """
    from maia.organisation.grant_file import read_grant

    path = Path(whom)
    is_file = path.is_file() and path.suffix != ".pub"
    subject, ours = read_grant(path).subject if is_file else read_principal(whom), opened(org)
    act = None if dry_run else lambda: ours.revoke_membership(subject, reason=reason)
    also = "with it      its broker, its members and its own types leave the network"
    revoke_and_answer(ours.membership_losses(subject), act, also=also, as_json=as_json)
