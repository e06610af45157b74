"""`maia cert`: issue certificates, show them, verify chains of them, find chains in a pool."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maia.cli.command import arg, flag, need, opt, options
from maia.cli.domain.calls import CallerKey, EntitledCaller, ReasonText, Server, Shown, revoked_shown
from maia.cli.inputs import (
    AT,
    BadFile,
    command_group,
    moment,
    read_certificates,
    read_constitutions,
    read_owner,
    read_principal,
    write_new,
)
from maia.cli.output import Answer, row, rows, several
from maia.cli.trust.grants import (
    PROOF_SUFFIX,
    AuthorityOptions,
    X509Options,
    certificate_shown,
    granted,
    one_action,
    period_shown,
    revocable,
)
from maia.cli.trust.key import FORCE, KEY_FILE, open_key
from maia.errors import BadInput
from maia.events import SECOND, Instant

if TYPE_CHECKING:
    from maia.credentials import (
        Authority,
        OnlineTest,
        Principal,
        SignedCertificate,
        Subject,
        Validity,
        VerifiedChain,
    )


app = command_group("Issue, show, verify, reduce and find certificates.")

FILES = arg("Certificates in the order of the chain, owner first.", metavar="FILE...")
ROOT = need("The owner of the resource: key, .pub file or quorum:….", "--owner", "--root")
TO = need("The principal at the end of the chain: key or .pub file.", "--subject")

OUT = need("The file to write.", "--out", "-o")


@options
class PeriodOptions:
    """From when until when something holds."""

    days: int | None = opt("Valid from now for so many days.", min=1)
    not_before: str | None = opt("A moment, or 'unbounded'.")
    not_after: str | None = opt("A moment, or 'unbounded'.")

    def validity(self) -> Validity:
        """Return the period that the options state; neither end is left to a default."""
        from maia.credentials import Validity

        now = moment(None)
        start = Instant(now - now % SECOND)
        if self.days is not None:
            if self.not_before is not None or self.not_after is not None:
                raise BadInput(
                    "INPUT-GRANT", "--days goes without --not-before and --not-after; give one or the other"
                )
            return Validity(start, Instant.from_datetime(start.to_datetime() + timedelta(days=self.days)))
        if self.not_before is None or self.not_after is None:
            raise BadInput(
                "INPUT-GRANT",
                "give a period: --days N, or both --not-before and --not-after (a time, or 'unbounded')",
            )
        first, last = (
            None if one == "unbounded" else Instant.parse(one) for one in (self.not_before, self.not_after)
        )
        return Validity(first, last)


@options
class OnlineOptions:
    """Which tests a certificate demands of those who verify it."""

    online: list[str] | None = opt(
        "Demand this test: followed-crl crl timed-crl revalidation one-time; or dates: none; repeatable."
    )
    by: str | None = opt("The tester: key or .pub file; default: you.")
    statements_at: list[str] | None = opt("Where statements may be fetched; repeatable.")

    def demanded(self, issuer: Principal, usual: list[str] | None = None) -> list[OnlineTest]:
        """Return the tests that the options demand, or the usual ones."""
        from maia.credentials import OnlineTest, TestKind

        online = self.online or usual
        if not online and (self.by is not None or self.statements_at):
            raise BadInput("INPUT-GRANT", "--by and --statements-at need --online, which is not given")
        kinds = [] if online in (None, ["dates"]) else online or []
        by = issuer if self.by is None else read_principal(self.by)
        known = {kind.value: kind for kind in TestKind}
        for word in kinds:
            if word not in known:
                raise BadInput(
                    "INPUT-GRANT", f"`{word[:32]}` is no online test; there are {', '.join(known)}"
                )
        return [OnlineTest(known[word], by, tuple(self.statements_at or ())) for word in kinds]


@app.command()
def issue(
    *,
    key: Path = KEY_FILE,
    subject: str = need("Who receives the right: key, .pub file, `KEY#group name`, or x509:CN=…,O=…."),
    out: Path = OUT,
    x509: Path | None = opt("The authority (PEM) of a subject `x509:NAME`.", "--authority", metavar="FILE"),
    asked: AuthorityOptions,
    domain: str | None = opt(
        "If this is your key, it has a domain that publishes lists.", envvar="MAIA_DOMAIN"
    ),
    may_delegate: bool = flag("The subject may pass the right on."),
    period: PeriodOptions,
    tests: OnlineOptions,
    comment: str = opt("A line for people.", default=""),
    force: bool = FORCE,
) -> Answer:
    """Issue an authorisation certificate.

    Where the issuer is a domain, which publishes lists of what it revokes, a right to publish or subscribe
    demands a timed list unless `--online` says otherwise.

    Examples:
        maia cert issue -k ccs.key --subject billing.pub -d numberplate.type --action subscribe
          --attribute numberplate --attribute timestamp --days 30 -o billing.cert
        maia cert issue -k city.key --subject x509:CN=Anna,O=Norway --authority norway.pem -d news.type
          --action subscribe --days 30 -o anna.cert
        maia cert issue -k city.key --subject desk.pub -d news.type --topic /news --topic '/news/uk/#'
          --action publish --days 30 -o desk.cert
        maia cert issue -k city.key --subject public.pub -d reading.type --shown-as area.type --action
          subscribe --every '5 minutes at least 5' --per 'area := first(place, 3)' --set 'mean_level :=
          mean(level, 0.1)' --set 'readings := count()' --days 30 -o public.cert
    """
    from maia.credentials import AuthorisationCertificate
    from maia.credentials import issue as sign

    signing_key = open_key(key)
    by = signing_key.principal
    authority = asked.authority(by)
    demanded = tests.demanded(by, _usual_tests(authority, domain, by))
    certificate = AuthorisationCertificate(
        issuer=by, subject=_subject(subject, by, x509), may_delegate=may_delegate, authority=authority,
        validity=period.validity().with_tests(*demanded), comment=comment,
    )  # fmt: skip
    return _save(sign(certificate, signing_key), out, force=force)


@app.command()
def name(
    *,
    key: Path = KEY_FILE,
    group: str | None = opt("The name in your namespace; several subjects make a group.", "--name"),
    subject: str = need(
        "Whom the name means: key, .pub file, `KEY#other name`, or FILE.proof of an X.509 name."
    ),
    out: Path = OUT,
    shown: X509Options,
    period: PeriodOptions,
    tests: OnlineOptions,
    force: bool = FORCE,
) -> Answer:
    """Issue a name certificate: in your namespace, a name means this subject.

    A subject that has proved an X.509 name (`maia cert prove`) gets that name, until its chain ends.

    Examples:
        maia cert name -k met.key --name 'Met Brokers' --subject b1.pub --days 7 -o b1.cert
        maia cert name -k met.key --subject anna.proof --authority norway.pem --revocation-list norway.crl
          --days 7 -o anna.cert
    """
    from maia.credentials import NameCertificate
    from maia.credentials import issue as sign
    from maia.credentials.x509_names import checked_local_name

    signing_key = open_key(key)
    by, validity = signing_key.principal, period.validity().with_tests(*tests.demanded(signing_key.principal))
    if subject.endswith(PROOF_SUFFIX):
        if group is not None:
            raise BadInput("INPUT-X509-NAME", "a proof is of one name, which it says: leave --name out")
        proved = shown.proved(subject, by)
        return _save(sign(proved.name_certificate(validity), signing_key), out, force=force)
    if group is None:
        raise typer.BadParameter("say the name with --name")
    certificate = NameCertificate(by, checked_local_name(group), _subject(subject), validity)
    return _save(sign(certificate, signing_key), out, force=force)


@app.command("at-computer")
def at_computer(
    *,
    key: Path = KEY_FILE,
    subject: str = need("Who is at this computer: key or .pub file.", "--subject"),
    minutes: int = opt("For how many minutes the word of the computer counts.", default=10, min=1, max=1440),
    out: Path = OUT,
    force: bool = FORCE,
) -> Answer:
    """Let a computer say, with its own key, that a principal is at it: for roles `where computer == …`.

    Examples:
        maia cert at-computer -k ward-pc.key --subject ann.pub --minutes 10 -o here.appointment
    """
    from maia.credentials import Validity
    from maia.credentials.appointments import (
        Appointment,
        AppointmentKind,
        appointment_to_text,
        issue_appointment,
    )
    from maia.roles.rule_reader import AT_COMPUTER

    computer, now = open_key(key), moment(None)
    begins = Instant(now - now % SECOND)
    period = Validity(begins, Instant(begins + minutes * 60 * SECOND))
    said = Appointment(
        issuer=computer.principal,
        holder=read_principal(subject),
        name=AT_COMPUTER,
        parameters=(),
        validity=period,
        kind=AppointmentKind.APPOINTMENT,
        serial=int(begins // SECOND).to_bytes(8),
    )
    write_new(out, appointment_to_text(issue_appointment(said, computer)), overwrite=force)
    return Answer(
        row("computer", str(computer.principal)),
        row("holder", str(said.holder)),
        row("until", str(period.not_after)),
        row("written", str(out)),
    )


@app.command()
def prove(
    *,
    certificate: Path = arg("Your X.509 certificate (PEM or DER), before those that lead to its authority."),
    x509_key: Path = need("The private key of that certificate, in PEM.", "--x509-key"),
    key: Path = KEY_FILE,
    grantor: str = need("Who is to name you: key or .pub file.", "--to"),
    out: Path = need("The file to write: NAME.proof.", "--out", "-o"),
    passphrase: str | None = opt("The passphrase of the X.509 key.", envvar="MAIA_X509_PASSPHRASE"),
    force: bool = FORCE,
) -> Answer:
    """Prove to one grantor that your X.509 name is that of your key in Maia. The file holds no secret.

    Examples:
        maia cert prove anna.pem --x509-key anna.pem.key -k anna.key --to hospital.pub -o anna.proof
    """
    from maia.config.x509_files import make_proof_file

    if out.suffix != PROOF_SUFFIX:
        raise typer.BadParameter(f"a proof is written to a file that ends in {PROOF_SUFFIX}")
    text = make_proof_file(
        certificate, x509_key, open_key(key), grantor=read_principal(grantor), now=moment(None),
        passphrase=passphrase,
    )  # fmt: skip
    write_new(out, text, overwrite=force)
    return row("written to", f"{out}   (hand it to {grantor}; it can be shown for seven days)", file=out)


@app.command()
def revoke(
    *,
    files: list[Path] = arg("Certificates of one domain.", metavar="FILE..."),
    server: Server,
    key: CallerKey,
    domain: str | None = opt("The domain: key or .pub file; else the issuer.", envvar="MAIA_DOMAIN"),
    credentials: Shown = None,
    reason: ReasonText = "",
) -> Answer:
    """Revoke certificates at the domain whose key signed them, in its register or not.

    Examples:
        maia cert revoke desk.cert -k met.key --server met.example:7600
        maia cert revoke desk.cert --reason 'left us' -k admin.key --credentials admin-certs
    """
    from maia.api import endpoints
    from maia.api.requests import Revocation
    from maia.credentials import certificate_to_bytes

    signed = read_certificates(files)
    at = str(signed[0].certificate.issuer) if domain is None else domain
    body = Revocation([], reason, [certificate_to_bytes(one) for one in signed])
    with EntitledCaller(server=server, domain=at, key=key, credentials=credentials).client() as client:
        found = client.ask(endpoints.REVOKE, body)
        first = row("already", None if found.ids else "it was revoked before")
        return Answer(first, revoked_shown(found, client))


@app.command("hand-over")
def hand_over(
    *,
    key: Path = KEY_FILE,
    subject: str = need("Who becomes the root: key or .pub file."),
    out: Path = OUT,
    network: str | None = opt("Hand over this network of yours alone."),
    type_name: str | None = opt("Hand over this type of yours alone.", "--type"),
    for_good: bool = flag("Yes: it can never be revoked, not by you either."),
    force: bool = FORCE,
) -> Answer:
    """Hand over for good what you own: the subject may do and grant whatever you may.

    Examples:
        maia cert hand-over -k pito.key --subject agency.pub --for-good -o handover.cert
    """
    from maia.credentials import FIRST_VERSION, NetworkName, TypeName, root_handover_certificate
    from maia.credentials import issue as sign

    signing_key, successor = open_key(key), read_principal(subject)
    owner = signing_key.principal
    if network is not None and type_name is not None:
        raise BadInput(
            "INPUT-GRANT", "give --network NAME or --type NAME, or neither for everything that you own"
        )
    if not for_good:
        raise BadInput(
            "INPUT-GRANT",
            f"this would let `{successor}` do and grant whatever you may, for ever; it could never be taken "
            "back, and you would keep your own rights: give --for-good if you mean it",
        )
    resource = NetworkName(owner, network) if network is not None else None
    chosen = TypeName(owner, type_name, FIRST_VERSION) if type_name is not None else resource
    certificate = root_handover_certificate(owner, successor, chosen)
    return _save(sign(certificate, signing_key), out, force=force)


@app.command()
def show(files: list[Path] = FILES) -> Answer:
    """Print certificates as people read them, without verifying anything.

    Examples:
        maia cert show billing.cert
    """
    certificates = read_certificates(files)
    if not certificates:
        raise BadFile(f"there is no certificate in {', '.join(f'`{one}`' for one in files)}")
    found = (Answer(rows(id=one.id), certificate_shown(one.certificate)) for one in certificates)
    return several("certificates", found, apart=True)


@app.command()
def verify(files: list[Path] = FILES, root: str = ROOT, subject: str = TO, at: str | None = AT) -> Answer:
    """Verify a chain from the owner of a resource to a principal, and say what it grants.

    Examples:
        maia cert verify pito-ccs.cert ccs-billing.cert --owner pito.pub --subject billing.pub
    """
    from maia.credentials import verify_chain

    chain = verify_chain(
        read_certificates(files), root=read_owner(root), subject=read_principal(subject), at=moment(at),
        constitutions=read_constitutions(files),
    )  # fmt: skip
    return _chain(chain)


@app.command()
def reduce(files: list[Path] = FILES, at: str | None = AT) -> Answer:
    """Reduce a chain to one 5-tuple; root and subject are read from its ends.

    Examples:
        maia cert reduce pito-ccs.cert ccs-billing.cert
    """
    from maia.credentials import AuthorisationCertificate, Principal, verify_chain

    certificates = read_certificates(files)
    steps = [signed for signed in certificates if isinstance(signed.certificate, AuthorisationCertificate)]
    if not steps:
        raise BadInput("INPUT-GRANT", "there is no authorisation certificate to reduce")
    last = steps[-1].certificate.subject
    if not isinstance(last, Principal):
        raise BadInput(
            "INPUT-GRANT", "the chain ends at a name or a threshold; `maia cert verify` takes --subject"
        )
    chain = verify_chain(certificates, root=steps[0].certificate.issuer, subject=last, at=moment(at))
    return _chain(chain)


@app.command()
def find(
    *,
    pool: list[Path] = arg("Files, and folders of *.cert, in any order.", metavar="POOL..."),
    root: str = ROOT,
    subject: str = TO,
    action: str = need("What is to be done: connect, publish, subscribe, …"),
    network: str | None = opt("The name of the network it is done to."),
    type_name: str | None = opt("The name of the type it is done to.", "--type"),
    version: str = opt("The version of the type.", default="0"),
    at: str | None = AT,
) -> Answer:
    """Find a chain in a pool of certificates that lets a principal do something.

    Examples:
        maia cert find certs/ --owner pito.pub --subject smith.pub --action subscribe --type
          uk.gov.pito.Numberplate
    """
    from maia.credentials import NetworkName, TypeName, find_chain

    owner = read_owner(root)
    if (network is None) == (type_name is None):
        raise BadInput("INPUT-GRANT", "give --network NAME or --type NAME")
    resource = (
        NetworkName(owner, network) if network is not None else TypeName(owner, str(type_name), version)
    )
    wanted = one_action(action)
    chain = find_chain(
        read_certificates(pool), root=owner, subject=read_principal(subject), action=wanted,
        resource=resource, at=moment(at), constitutions=read_constitutions(pool),
    )  # fmt: skip
    return _chain(chain)


def _chain(chain: VerifiedChain) -> Answer:
    by = [f"{one.id.hex()[:16]}  {one.certificate.comment}".rstrip() for one in chain.certificates]
    return Answer(
        rows(root=chain.root, subject=chain.subject),
        row("may pass on", chain.may_delegate, may_delegate=chain.may_delegate),
        granted(chain.authority),
        period_shown(chain.validity),
        row("by", by, certificates=[one.id for one in chain.certificates]),
    )


def _usual_tests(authority: Authority, domain: str | None, issuer: Principal) -> list[str] | None:
    """Return the default tests, if the issuer is a domain: a timed list; of brokers one to follow."""
    from maia.credentials import Action

    is_named = domain is not None and (domain.startswith("ed25519:") or Path(domain).is_file())
    if domain is None or not is_named or read_principal(domain) != issuer:
        return None
    # Lists travel over connections, and a right to manage or install a type may demand no test.
    tested = {Action.PUBLISH, Action.SUBSCRIBE, Action.EXTEND}
    if Action.BROKER in authority.actions:
        return ["followed-crl"]
    return ["timed-crl"] if authority.actions <= tested else None


def _save(signed: SignedCertificate, out: Path, *, force: bool) -> Answer:
    from maia.credentials import certificate_to_text

    write_new(out, certificate_to_text(signed), overwrite=force)
    made = signed.certificate
    return Answer(
        rows(id=signed.id), certificate_shown(made), revocable(made), row("written to", out, file=out)
    )


def _subject(word: str, space: Principal | None = None, authority: Path | None = None) -> Subject:
    from maia.credentials import LocalName
    from maia.credentials.appointments import X509_WORD
    from maia.credentials.x509_names import x509_subject

    if word.startswith(X509_WORD):
        from maia.config.x509_files import read_authority

        if space is None or authority is None:
            raise typer.BadParameter("a subject `x509:NAME` goes with --authority FILE, who certifies it")
        return x509_subject(word.removeprefix(X509_WORD), read_authority(authority), space=space)
    principal, separator, names = word.partition("#")
    if separator:
        return LocalName(read_principal(principal), tuple(names.split("#")))
    return read_principal(principal)
