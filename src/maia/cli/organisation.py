"""`maia org`, `member`, `grant`, `revoke`, `up` and `profile`: an organisation in few words.

Make one or join the network of another one; give its members and other organisations rights, and take them
back; run its servers; show a participant's profile, and choose the one that commands use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from maia.cli.command import arg, flag, need, opt, options
from maia.cli.domain.calls import ASK, HINTS, ReasonText, revoked_lines, shown_end
from maia.cli.inputs import command_group, read_principal
from maia.cli.output import (
    Answer,
    book,
    know_types,
    named,
    plain,
    row,
    rows,
    several,
    show,
    use_folder,
    wants_json,
)
from maia.cli.profile_option import VARIABLE, used_profile, used_profile_file
from maia.cli.progress import patience
from maia.cli.trust.grants import PROOF_SUFFIX, X509Options, narrowing, right, right_record, shown_subject
from maia.cli.trust.key import FORCE
from maia.errors import BadInput, MaiaError

if TYPE_CHECKING:
    from maia.api.responses import RevokedAnswer
    from maia.credentials import NetworkName, Principal, SignedCertificate
    from maia.organisation import Grant, Organisation
    from maia.organisation.losses import Losses
    from maia.organisation.rights import Terms
    from maia.profile import Profile


org_app = command_group("Make an organisation, and join the network of another one.")
member_app = command_group("Add members to an organisation, and list them.")
profile_app = command_group("Show a participant's profile, and choose the one that commands use.")

ORG = opt(
    "The organisation's folder; default: the one around here, or the only one below.",
    "--org",
    envvar="MAIA_ORG",
)
CHECK = flag("Try it and say what it would change; change nothing.", "--check", "--dry-run")
TOLD_KEY = opt(
    "What its holder told you, on another way: the key in the .pub file, or its first 32 digits.", "--key"
)
SAME_KEY = flag("Use this key although it was revoked here.", "--same-key")
DRY_RUN = flag("Show who would lose what, and change nothing.", "--dry-run")


CHECKED: Final = "nothing was changed; this would be:"
_NOT_CONFIRMED: Final = "whether it was revoked since: the server of its issuer does not answer now"
_COMPARE: Final = "compare that key with the one the other organisation tells you"
_REMEMBER: Final = "`maia key remember {} --name NAME` gives it a name of yours"
_KEYS_BEGIN: Final = (
    "of its log, it can open what is published after its key server has learned of this right, and nothing "
    "from before; that is at once while `maia up` runs, here and at the owner"
)
_MADE_ELSEWHERE: Final = (
    "a sealed type: what this right shows is made by publishers' brokers, and sealed for it, from the moment "
    "on at which the key server knows of it"
)
_NOT_INVITED: Final = (
    "this brings none: unless it is in the network already, {} invites it first (`maia network invite`)"
)
_DAYS_MAX: Final = 3650
_ENDED: Final = "is given nothing any more"
_ANOTHER: Final = "`maia member add` makes a member another one"
_OF_OUR_OWN: Final = " (our own; after joining another, grant again)"


_Done = TypeVar("_Done")


@options
class RightOptions:
    """What may be done, with how much of a type, until when: of `maia grant` and `maia member add`."""

    may: list[str] | None = opt(
        "publish:TYPE or subscribe:TYPE; of topics, 'publish:/topic' is that one, "
        "'publish:/topic/#' and 'subscribe:/topic' also those below. May be repeated.",
        metavar="ACTION:TYPE",
    )
    only: list[str] | None = opt("Only these attributes: ward,value. Default: all.", metavar="NAMES")
    where: str | None = opt("Only events that this admits, in the filter language.")
    assignments: list[str] | None = opt(
        "Change what is shown, or published: 'place := first(place, 3)'; repeatable.", "--set"
    )
    shown_as: str | None = opt("Show events as this type; it has what is --set.", metavar="TYPE")
    every: str | None = opt("Show what events come to in each period: '5 minutes at least 5'.")
    per: list[str] | None = opt("Group them by a value: 'area := first(place, 3)'; repeatable.")
    condition: str | None = opt("What must be true, over facts: 'on-duty = true', 'rate-minute <= 600'.")
    during: str | None = opt(
        "When it counts: 'between 09:00 and 17:00 on monday to friday in Europe/London'."
    )
    topic: list[str] | None = opt("Only these topics, such as '/news/uk/#'; repeatable.")
    days: int | None = opt("How long the rights hold; default: 90.", min=1, max=3650)
    until: str | None = opt("How long, instead of --days: the end of a day, or a moment.", metavar="DATE")

    @property
    def terms(self) -> Terms:
        """Return how far the rights reach."""
        if self.days is not None and self.until is not None:
            raise typer.BadParameter("give --days or --until")
        return {
            "only": _names(self.only), "where": self.where, "set": self.assignments or (),
            "shown_as": self.shown_as, "every": self.every, "per": self.per or (),
            "condition": self.condition, "during": self.during, "topic": self.topic or (),
            "days": self.days or 90, "until": self.until,
        }  # fmt: skip


@options
class JoinOptions:
    """How an invitation or a grant is used."""

    file: Path = arg("An invitation or a grant, made for this organisation.")
    leave: bool = flag("Leave the network that the organisation is in, without a question.")
    check: bool = CHECK
    name: str | None = opt("What you call the other organisation from now on.")
    same_key: bool = SAME_KEY
    org: Path | None = ORG


def opened(folder: Path | None) -> Organisation:
    """Open the organisation that is meant."""
    from maia.organisation import find_organisation

    ours = find_organisation(folder)
    use_folder(ours.folder)
    return ours


# ------------------------------------------------------------ the organisation


@org_app.command()
def new(
    folder: Path = arg("A new folder, whose name is the organisation's."),
    host: str = opt("Where its servers listen; free ports are chosen once.", default="127.0.0.1"),
    processes: int = opt("How many processes its broker is; they share its types.", default=1, min=1, max=64),
) -> Answer:
    """Make an organisation: a key, a network of its own, and the settings of its servers.

    Examples:
        maia org new hospital
        maia org new institute --host 10.0.0.7
    """
    from maia.organisation import Organisation

    made = Organisation.create(folder, host=host, processes=processes)
    public = f"{made.folder / f'{made.name}.pub'}   (hand it out: others grant rights to it)"
    return Answer(
        row("organisation", f"{made.name}, in {made.folder} (only you can read it)", name=made.name),
        row("public half", public, principal=made.principal, folder=folder),
        rows(**made.addresses),
        row("next", "maia type define, maia member add, maia up"),
        whole=True,
    )


@org_app.command()
def join(asked: JoinOptions) -> Answer:
    """Use an invitation or a grant, as `maia network join` does.

    Examples:
        maia org join institute.grant
        maia org join institute.grant --check
    """
    return joined(asked)


def joined(asked: JoinOptions) -> Answer:
    """Join, after a question where a network is left and a person can answer it."""
    import sys

    from maia.organisation.compared_keys import in_groups
    from maia.organisation.joining import WouldLeave
    from maia.organisation.losses import is_membership

    ours, file, check = opened(asked.org), asked.file, asked.check
    known = frozenset(book().keys)
    try:
        done = ours.join(
            file, leave=asked.leave or check, is_check=check, name=asked.name, same_key=asked.same_key
        )
    except WouldLeave as problem:
        if wants_json() or not sys.stdin.isatty():
            raise
        typer.echo(problem.message, err=True)
        if not typer.confirm("Leave it?"):
            raise
        done = ours.join(file, leave=True, name=asked.name, same_key=asked.same_key)
    offer, left, by = done.offer, done.left, done.offer.grant.domain
    own = [one for one in offer.certificates if one.certificate.subject == offer.grant.subject]
    use_folder(ours.folder)  # the name is in there now
    know_types(offer.definitions)
    rights = [right(one) for one in own if not is_membership(one)]
    network = f"{offer.network.name} of {offer.network.owner}"
    is_known, is_named = str(by) in known, asked.name is not None
    compare = f"its key is {in_groups(by)}: {_COMPARE}" if is_named else f"{_COMPARE}; then"
    return Answer(
        row("checked", CHECKED if check else None),
        row("joined", network) if left else row("took in", f"{file}, in network {network}"),
        row(network=offer.network.name, coordinator=offer.network.owner),
        row("left", f"{left.name} of {left.owner}" if left and done.ends else None, left=as_record(left)),
        row("ended", done.ends, ended=done.ends),
        row("granted by", by, granted_by=by),
        row("types", " ".join(offer.types) if offer.types and not rights else None, types=offer.types),
        several("rights", rights),
        row("not kept", offer.unused, certificates=len(offer.certificates), not_kept=offer.unused),
        row("note", done.notes, notes=done.notes),
        row("not asked", None if done.is_confirmed else _NOT_CONFIRMED, confirmed=done.is_confirmed),
        row("check", None if is_known else compare),
        row(" ", None if is_known or is_named else _REMEMBER.format(by)),
        row(files=done.files, changed=not check),
        whole=not (is_known or is_named),
    )


def as_record(network: NetworkName | None) -> dict[str, object] | None:
    """Return a network as programs read it."""
    return None if network is None else {"network": network.name, "coordinator": network.owner}


@org_app.command()
def move(
    listen: str = need("Where the broker listens from now on, by a name or a number.", metavar="HOST:PORT"),
    address: str | None = opt(
        "What others dial, if that is something else, such as a router's address.", metavar="HOST:PORT"
    ),
    org: Path | None = ORG,
) -> Answer:
    """Move the organisation's broker to another address; members, profiles elsewhere and partners follow.

    Servers of `maia up` take it in at once. The domain's server stays where it is, and tells the others.

    Examples:
        maia org move --listen broker.hospital.example:7400
        maia org move --listen 0.0.0.0:7400 --address broker.hospital.example:7400
    """
    ours = opened(org)
    before = ours.addresses["broker"]
    problems = ours.move_broker(listen, address=address)
    now = ours.addresses
    follow = f"others ask the server at {now['server']}, which stays; gateways are started again"
    return Answer(
        row("moved", f"{before} to {now['broker']}", before=before, broker=now["broker"], listen=listen),
        row("members", [one.name for one in ours.members()] or None),
        row("follow", follow),
        row("warning", problems, problems=problems),
    )


@org_app.command("show")
def show_org(org: Path | None = ORG) -> Answer:
    """Print the organisation's key, network, addresses, types and members, and who granted what to whom.

    Examples:
        maia org show
        maia org show --org hospital
    """
    ours = opened(org)
    held = [one for one in ours.held() if one.certificate.subject == ours.principal]
    rights, given = _Rights(ours, ours.revoked_now()), list[Answer]()
    lines = [named(line) for one in rights.of(held, by=True) for line in one.lines]
    for to, some in _by_subject(ours.issued()).items():
        lines += [named(f"granted to   {to}")]
        for one in rights.of(some):
            lines += [f"  {named(line)}" for line in one.lines]
            given.append(Answer(row(to=to), one))
    holds = [one.record for one in rights.of(held)]
    return Answer(
        rows(
            name=ours.name, principal=ours.principal, network=ours.network.name,
            coordinator=ours.network.owner, **ours.addresses,
            types=sorted({one.definition.name.name for one in ours.definitions()}),
            members=[one.name for one in ours.members()],
        ),
        row("", lines, holds=holds, granted=[one.record for one in given]),
        whole=True,
    )  # fmt: skip


def up(org: Path | None = ORG) -> None:
    """Run the organisation's broker and domain server until Ctrl-C or SIGTERM, with their logs together.

    Examples:
        maia up
        maia up --org hospital
    """
    import asyncio

    from maia.organisation.servers import run_servers

    ours = opened(org)
    ours.make_process_keys()  # of a folder that is older than they are
    ours.prepare_servers()
    where = ours.addresses

    def ready() -> None:
        line = f"{ours.name}: broker {where['broker']}, server {where['server']}"
        show(row("up", line, up=ours.name, **where))

    asyncio.run(run_servers(ours, ready=ready, named=None if wants_json() else named))


# ------------------------------------------------------------ rights


@member_app.command()
def add(
    *,
    name: str = arg("The member: letters, digits, - and _."),
    rights: RightOptions,
    same_key: bool = SAME_KEY,
    org: Path | None = ORG,
) -> Answer:
    """Make a member with a key and a profile, or give a member more rights; its broker gets them, too.

    A member that was revoked gets a new key, and its old profile is put aside in `revoked/`.

    Examples:
        maia member add lab --may publish:LabResult
        maia member add dashboard --may subscribe:LabResult --only ward,value
    """
    ours = opened(org)
    before = {one.id for one in ours.issued()}
    made = ours.add_member(name, may=rights.may or (), same_key=same_key, **rights.terms)
    given = [one for one in ours.issued_to(made.principal()) if one.id not in before]
    sealed = [f"{one} is sealed: {_KEYS_BEGIN}" for one in _sealed_among(ours, rights)]
    return Answer(
        row("member", f"{name} of {ours.name}", member=name),
        row("profile", f"{made.path} (only you can read it; `--as {name}`)", profile=made.path),
        row(may=rights.may or []),
        several("rights", _Rights(ours, frozenset()).of(given)),
        _topic_notes(rights.may),
        row("recorded", sealed),
    )


@member_app.command("list")
def list_members(org: Path | None = ORG) -> Answer:
    """List the members of an organisation, their profiles, and what it has granted them.

    Examples:
        maia member list
        maia member list --org hospital
    """
    ours = opened(org)
    rights, found = _Rights(ours, ours.revoked_now()), list[Answer]()
    for one in ours.members():
        given = rights.of(ours.issued_to(one.principal()), by=True)
        head = row(one.name, one.path, member=one.name, profile=one.path)
        found.append(Answer(head, several("rights", given, indent="  ")))
    return several("members", found, none="no members")


def grant(
    *,
    subject: str = arg(
        "To whom: a .pub file, a key, a name you know, or the .proof of an X.509 name (`maia cert prove`)."
    ),
    out: Path = need("The file to hand to the other organisation.", "--out", "-o"),
    x509: X509Options,
    rights: RightOptions,
    delegable: bool = flag("It may pass the rights on, to its members and its broker."),
    key: str | None = TOLD_KEY,
    same_key: bool = SAME_KEY,
    org: Path | None = ORG,
    force: bool = FORCE,
) -> Answer:
    """Grant rights to another organisation: certificates, types and addresses in one file; no secrets.

    Examples:
        maia grant institute.pub --may subscribe:LabResult --only ward,value --where 'ward in ("3",
          "4")' --delegable --days 90 -o institute.grant
        maia grant anna.proof --authority norway.pem --revocation-list norway.crl --may
          subscribe:LabResult --days 90 -o anna.grant
    """
    from maia.credentials import AuthorisationCertificate

    ours = opened(org)
    proved = x509.proved(subject, ours.principal) if subject.endswith(PROOF_SUFFIX) else None
    whom = meant(subject) if proved is None else proved.principal
    if same_key:
        ours.use_again(read_principal(subject) if proved is None else proved.principal)

    def granted(told: str | None) -> Grant:
        return ours.grant(
            whom, may=rights.may or (), delegable=delegable, proved=proved, key=told, **rights.terms
        )

    made = when_compared(granted, key)
    made.save(out, overwrite=force)
    given = [one for one in made.certificates if one.certificate.issuer == ours.principal]
    own = _OF_OUR_OWN if made.coordinator == ours.principal else ""
    shown = [one.certificate for one in given if isinstance(one.certificate, AuthorisationCertificate)]
    is_made = any(one.authority.transformations for one in shown) and _sealed_among(ours, rights)
    return Answer(
        row("granted to", made.subject, subject=made.subject, may=rights.may or []),
        several("rights", map(right, given)),
        _topic_notes(rights.may),
        row("note", _MADE_ELSEWHERE if is_made else None, network=made.network, coordinator=made.coordinator),
        row("for network", f"{made.network} of {made.coordinator}{own}"),
        row("invitation", None if ours.can_connect(made) else _NOT_INVITED.format(made.coordinator)),
        row("written to", f"{out}   (revoke it with `maia revoke {out}`)", file=out),
    )


def meant(subject: str) -> Principal | str:
    """Return whom a word means: a file, whose key is to be compared, or a key that the user knows."""
    return subject if subject.endswith(".pub") or Path(subject).is_file() else read_principal(subject)


def when_compared(act: Callable[[str | None], _Done], told: str | None) -> _Done:
    """Do what is done with a key in a file, after a person has compared the key where that is needed."""
    import sys

    from maia.organisation.compared_keys import KeyNotCompared, in_groups

    try:
        return act(told)
    except KeyNotCompared as problem:
        if wants_json() or not sys.stdin.isatty():
            raise
        typer.echo(f"`{problem.file}` holds the key\n\n    {in_groups(problem.key)}\n", err=True)
        if not typer.confirm("Compare it with what its holder tells you on another way. Is it the same?"):
            raise
        return act(str(problem.key))


def revoke(
    what: str = arg("A member or an organisation by its name or key; a grant; a certificate."),
    reason: ReasonText = "",
    stolen: bool = flag("The key is in wrong hands: end also its membership, and never use it again."),
    dry_run: bool = DRY_RUN,
    ask: list[str] | None = ASK,
    org: Path | None = ORG,
) -> Answer:
    """Revoke rights at the organisation's own server, which `maia up` runs; open streams end.

    All that a member has ends, and its key gets nothing any more without `--same-key`. An organisation
    stays part of the network, unless its key is `--stolen`.

    Examples:
        maia revoke lab --reason 'left us'
        maia revoke institute --stolen
        maia revoke institute --dry-run
        maia revoke institute --dry-run --ask institute@institute.example:7600
        maia revoke institute.grant
    """
    from maia.api.further_registers import servers_told

    ours = opened(org)
    told = servers_told(ask or (), read_principal)
    act = None if dry_run else lambda: ours.revoke(what, reason=reason, is_stolen=stolen)
    return revoked(ours.losses(what, is_stolen=stolen, ask=told if dry_run else None), act)


def revoked(losses: Losses, act: Callable[[], RevokedAnswer] | None, *, also: Answer | None = None) -> Answer:
    """Revoke what is meant, and say who loses what; without an act, it is a dry run."""
    from maia.credentials.brokers import makes_broker

    lost = []
    for one in losses.lost:
        passed_on = f", passed on by {one.signed.certificate.issuer}" if one.is_passed_on else ""
        head = row("loses", f"{one.subject}{passed_on}")
        head.lines += [f"  {line}" for line in right(one.signed).lines]
        lost.append(Answer(row(principal=one.subject), head, row(**right_record(one.signed))))
    kept = sorted({str(right_record(one)["may"]) for one in losses.kept})
    ends = several("ends_at", map(shown_end, losses.ends))
    stays = row("stays", f"{', '.join(kept)} (`maia network revoke` ends that)", stays=kept)
    ended = _ENDED if any(makes_broker(one.signed) for one in losses.lost) else f"{_ENDED}; {_ANOTHER}"
    key = row("key", None if losses.key is None else f"{losses.key} {ended}", key=losses.key)
    parts = [several("loses", lost), ends, also or Answer(), stays if kept else Answer(), key]
    if act is None:
        unknown = None if losses.is_complete else "what it passed on: the server does not answer"
        return Answer(*parts, row("unknown", unknown), row("dry run", "nothing was revoked"))
    try:
        with patience(f"revoking {len(losses.lost)} certificates"):
            found = act()
    except MaiaError as problem:
        if problem.code == "UNAVAILABLE-DOMAIN":
            problem.add_note("`maia up` runs the organisation's server")
        elif problem.code in HINTS:
            problem.add_note(HINTS[problem.code])
        raise
    return Answer(*parts, row("", revoked_lines(found), **(plain(found) | parts[0].record | key.record)))


def renew(
    whom: list[str] | None = arg(
        "Members or organisations, by name or key; default: everybody.", default=None
    ),
    within: str | None = opt(
        "Renew all that ends in so many days: 30d. Default: what is warned of, at most 14d ahead.",
        metavar="DAYS",
    ),
    dry_run: bool = flag("Show what would be renewed, and change nothing.", "--dry-run"),
    out: Path = opt("Where files for other organisations are written.", "--out", "-o", default=Path()),
    org: Path | None = ORG,
) -> Answer:
    """Renew what the organisation has issued and what ends soon: for as long as it held before, from now on.

    Members and brokers have it at once, and clients that run. Others are handed a file.

    Examples:
        maia renew --dry-run
        maia renew --within 30d
        maia renew lab institute
    """
    ours = opened(org)
    found = ours.renew(days=None if within is None else _days(within), whom=whom or (), is_check=dry_run)
    given = []
    for one in found.renewed:
        record = {**right_record(one.ending.signed), "until": str(one.until)}
        head = row("renewed" if not dry_run else "to renew", f"{one.ending.right} of {one.subject}")
        line = row("  until", f"{one.until}, in place of {one.ending.at}")
        given.append(Answer(head, line, row(to=one.subject, ended=str(one.ending.at), **record)))
    asked = [
        Answer(
            row("ask", f"{one.signed.certificate.issuer} for {one.right}, which ends at {one.at}"),
            row(to=shown_subject(one.signed.certificate.subject), **right_record(one.signed)),
        )
        for one in found.others
    ]
    handed = []
    for grant_file in found.grants:
        file = out / f"{_file_word(grant_file.subject)}-renewed.grant"
        grant_file.save(file, overwrite=True)
        handed.append(
            row("hand over", f"{file} to {grant_file.subject}: `maia org join` takes it", file=file)
        )
    return Answer(
        several("renewed", given, none="nothing of ours ends soon"),
        several("ask", asked),
        several("hand_over", handed),
        row("dry run" if dry_run else "", "nothing was changed" if dry_run else None, dry_run=dry_run),
    )


def _days(text: str) -> int:
    """Read how many days: `14d`, or `14`."""
    number = text.removesuffix("d")
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= _DAYS_MAX):
        raise typer.BadParameter("say a number of days, such as 14d")
    return int(number)


def _file_word(whom: Principal) -> str:
    """Return the name of a principal as a word in the name of a file."""
    import re

    known = book().keys.get(str(whom))
    return re.sub(r"[^A-Za-z0-9_-]+", "-", known.name) if known else str(whom).partition(":")[2][:16]


@dataclass(frozen=True, slots=True)
class _Rights:
    """What certificates grant, each right once, with what it rests on; what was revoked is marked."""

    ours: Organisation
    revoked: frozenset[bytes]

    def of(self, given: Iterable[SignedCertificate], *, by: bool = False) -> list[Answer]:
        """Return one answer for each right: of the certificate that counts for the longest time.

        That a member of ours may connect goes without saying.
        """
        from maia.organisation.losses import is_invitation, is_membership

        once: dict[str, SignedCertificate] = {}
        said = [one for one in given if is_invitation(one) or not is_membership(one)]
        for one in sorted(said, key=lambda each: (each.id not in self.revoked, _ends(each))):
            once[repr({**right_record(one), "until": None})] = one
        return [self._right(one, by=by) for one in once.values()]

    def _right(self, one: SignedCertificate, *, by: bool) -> Answer:
        rests_on = self.ours.rests_on(one)
        shown = [each for each in rests_on if each.id not in self.revoked] or rests_on[:1]
        counts = one.id not in self.revoked and not (rests_on and shown[0].id in self.revoked)
        terms = [(f"a grant of {each.certificate.issuer}", "; ".join(narrowing(each))) for each in shown]
        texts = list(dict.fromkeys(": ".join(filter(None, each)) for each in terms))
        who = rests_on[0].certificate.issuer if rests_on else one.certificate.issuer
        below = {"rests_on": [right_record(each) for each in rests_on]} if rests_on else {}
        return Answer(
            right(one, by=by),
            row("  rests on", texts, **below),
            row("  revoked", None if counts else f"by {who}: it counts no more", counts=counts),
        )


def _ends(signed: SignedCertificate) -> int:
    from maia.events import INSTANT_MAX

    return signed.certificate.validity.not_after or INSTANT_MAX


def _by_subject(given: Iterable[SignedCertificate]) -> dict[str, list[SignedCertificate]]:
    found: dict[str, list[SignedCertificate]] = {}
    for one in given:
        found.setdefault(shown_subject(one.certificate.subject), []).append(one)
    return found


def _sealed_among(ours: Organisation, rights: RightOptions) -> list[str]:
    """Return the sealed types that rights let their holder read."""
    meant = ours.rights(rights.may or (), **rights.terms)
    read = (one.event_type for one in meant if one.action.value == "subscribe")
    return sorted({one.name.name for one in read if one.sealing is not None})


def _topic_notes(may: Iterable[str] | None) -> Answer:
    """Say what is meant by the right to publish on a topic, which is less than to subscribe to it."""
    alone = [one for one in may or () if one.startswith("publish:/") and not one.endswith("#")]
    said = "`{}` is that topic alone; `{}/#` would include those below it"
    return row("note", [said.format(one, one.rstrip("/")) for one in alone])


def _names(words: list[str] | None) -> list[str]:
    """Return names that were written with commas, or one by one."""
    return [one.strip() for word in words or () for one in word.split(",") if one.strip()]


# ------------------------------------------------------------ profiles


@profile_app.command("show")
def show_profile(profile: str | None = arg("A profile; default: the one in use.", default=None)) -> Answer:
    """Print what a profile names; the secret key is never shown.

    Examples:
        maia profile show lab.maia
        maia profile show
    """
    from maia.profile import find_profile

    found = used_profile() if profile is None else find_profile(profile)
    if found is None:
        raise BadInput(
            "INPUT-PROFILE", f"no profile is in use: name one, set {VARIABLE}, or run `maia profile use`"
        )
    return rows(**_profile_record(found))


@profile_app.command()
def use(
    profile: str | None = arg("The profile that commands use from now on.", default=None),
    none: bool = flag("Use no profile any more."),
) -> Answer:
    """Choose the profile that commands of this user take what is not given from.

    Examples:
        maia profile use lab.maia
        maia profile use --none
    """
    from maia.private_files import create_private, make_private_folder
    from maia.profile import find_profile

    if (profile is None) == (not none):
        raise typer.BadParameter("name a profile, or say --none")
    file = used_profile_file()
    if profile is None:
        file.unlink(missing_ok=True)
        return row("", "no profile is in use", profile=None)
    path = find_profile(profile).path.resolve()
    make_private_folder(file.parent)
    with create_private(file) as written:
        written.write(f"{path}\n".encode())
    return row("in use", path, profile=path)


def _profile_record(profile: Profile) -> dict[str, object]:
    import msgspec

    from maia.config.input_files import read_definitions
    from maia.keystore.key_files import public_half

    settings = profile.settings
    own = {} if settings.key is None else {"principal": public_half(settings.key)}
    said = {name: one for name, one in msgspec.structs.asdict(settings).items() if one not in (None, ())}
    names = {one.definition.name.name for one in read_definitions(settings.types)}
    return {"profile": profile.path, **own, **said, "knows": sorted(names)}
