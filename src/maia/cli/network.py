"""`maia network`: who is part of the network, apart from who sees what.

An invitation lets an organisation connect and install its own types, and shows it nothing. A grant
(`maia grant`) shows it events, and ends without its membership.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import arg, flag, need, opt
from maia.cli.domain.calls import ReasonText
from maia.cli.inputs import command_group, read_principal
from maia.cli.organisation import CHECK, DRY_RUN, ORG, JoinOptions, opened, revoked
from maia.cli.output import Answer, book, row, several, wants_json
from maia.cli.trust.grants import right
from maia.cli.trust.key import FORCE

if TYPE_CHECKING:
    from maia.credentials import NetworkName

app = command_group("Invite organisations into the network, join one, leave it, and show who is in it.")


_CHECKED: Final = "nothing was changed; this would be:"
_NOT_CONFIRMED: Final = "whether it was revoked since: the server of its issuer does not answer now"
_COMPARE: Final = "compare that key with the one the other organisation tells you; then"
_REMEMBER: Final = "`maia key remember {} --name NAME` gives it a name of yours"


@app.command()
def invite(
    subject: str = arg("Whom: a .pub file or a key."),
    out: Path = need("The file to hand to the other organisation.", "--out", "-o"),
    days: int = opt("How long it holds.", default=365, min=1, max=3650),
    org: Path | None = ORG,
    force: bool = FORCE,
) -> Answer:
    """Let an organisation connect and publish types of its own; it sees nothing of others by that.

    Examples:
        maia network invite rotterdam.pub -o rotterdam.invite
    """
    made = opened(org).invite(subject, days=days)
    made.save(out, overwrite=force)
    return Answer(
        row("invited", made.subject, invited=made.subject),
        row("network", f"{made.network} of {made.coordinator}", network=made.network),
        row("written to", f"{out}   (end it with `maia network revoke {subject}`)", file=out),
    )


@app.command()
def join(asked: JoinOptions) -> Answer:
    """Use an invitation or a grant: join the network if need be, and keep certificates and types.

    Examples:
        maia network join rotterdam.invite
        maia network join customs.grant --check
    """
    return joined(asked)


def joined(asked: JoinOptions) -> Answer:
    """Join, after a question where a network is left and a person can answer it."""
    from maia.organisation.joining import WouldLeave
    from maia.organisation.losses import is_membership

    ours, file, check = opened(asked.org), asked.file, asked.check
    known = frozenset(book().keys)
    try:
        done = ours.join(file, leave=asked.leave or check, is_check=check, name=asked.name)
    except WouldLeave as problem:
        if wants_json() or not sys.stdin.isatty():
            raise
        typer.echo(problem.message, err=True)
        if not typer.confirm("Leave it?"):
            raise
        done = ours.join(file, leave=True, name=asked.name)
    offer, left, by = done.offer, done.left, done.offer.grant.domain
    own = [one for one in offer.certificates if one.certificate.subject == offer.grant.subject]
    rights = [right(one) for one in own if not is_membership(one)]
    network = f"{offer.network.name} of {offer.network.owner}"
    is_known = str(by) in known
    return Answer(
        row("checked", _CHECKED if check else None),
        row("joined", network) if left else row("took in", f"{file}, in network {network}"),
        row(network=offer.network.name, coordinator=offer.network.owner),
        row("left", f"{left.name} of {left.owner}" if left and done.ends else None, left=_named(left)),
        row("ended", done.ends, ended=done.ends),
        row("granted by", by, granted_by=by),
        row("types", " ".join(offer.types) if offer.types and not rights else None, types=offer.types),
        several("rights", rights),
        row("not kept", offer.unused, certificates=len(offer.certificates), not_kept=offer.unused),
        row("note", done.notes, notes=done.notes),
        row("not asked", None if done.is_confirmed else _NOT_CONFIRMED, confirmed=done.is_confirmed),
        row("check", None if is_known else _COMPARE),
        row(" ", None if is_known else _REMEMBER.format(by), files=done.files, changed=not check),
        whole=not is_known,
    )


def _named(network: NetworkName | None) -> dict[str, object] | None:
    return None if network is None else {"network": network.name, "coordinator": network.owner}


@app.command("leave")
def leave_network(
    yes: bool = flag("Do not ask.", "--yes", "-y"), check: bool = CHECK, org: Path | None = ORG
) -> Answer:
    """Leave the network that was joined: the organisation's broker and members go on in its own.

    Examples:
        maia network leave
        maia network leave --check
    """
    ours = opened(org)
    left = ours.network
    ends = ours.leave(is_check=True)
    if not (yes or check) and sys.stdin.isatty() and not wants_json():
        typer.echo(f"leaving `{left.name}` of `{left.owner}` ends {', '.join(ends)}", err=True)
        typer.confirm("Leave it?", abort=True)
    if not check:
        ours.leave()
    return Answer(
        row("checked", _CHECKED if check else None),
        row("left", f"{left.name} of {left.owner}", left=_named(left)),
        row("ended", ends, ended=ends, changed=not check),
    )


@app.command()
def show(org: Path | None = ORG) -> Answer:
    """Print the network, its coordinator, the brokers it was joined through, and who was invited.

    Examples:
        maia network show
        maia network show --org hamburg --json
    """
    ours = opened(org)
    invited = [
        (whom, str(max(one.certificate.validity.not_after or 0 for one in given)))
        for whom, given in ours.invited().items()
    ]
    name, owner = ours.network.name, ours.network.owner
    own = " (our own)" if owner == ours.principal else ""
    guests = (row("invited", f"{one} until {end}", organisation=one, until=end) for one, end in invited)
    return Answer(
        row("network", f"{name} of {owner}{own}", network=name, coordinator=owner),
        row("through", ours.joined_through, joined_through=ours.joined_through),
        several("invited", guests),
    )


@app.command()
def revoke(
    whom: str = arg("The organisation: a name, a .pub file, a key, an invitation."),
    reason: ReasonText = "",
    dry_run: bool = DRY_RUN,
    org: Path | None = ORG,
) -> Answer:
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
    also = row("with it", "its broker, its members and its own types leave the network")
    return revoked(ours.membership_losses(subject), act, also=also)
