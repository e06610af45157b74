"""`maia tpm`: a router proves with its TPM 2.0 how it has booted.

`attest` and `measure` use the TPM through tpm2-tools, where they are installed. `enrol` and `quote` are the
same in steps: files go back and forth between them and a TPM that is somewhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from maia.api import endpoints as api
from maia.api.requests import ActivationBody, ApprovedBody, EnrolBody, QuoteBody
from maia.cli.command import arg, flag, need, opt
from maia.cli.domain.calls import DomainCaller, EntitledCaller, repeat
from maia.cli.inputs import BadFile, check_new, command_group, moment, read_text, write_new
from maia.cli.output import Answer, plain, row, rows, show
from maia.cli.trust.key import FORCE
from maia.errors import Refusal
from maia.events import SECOND, Instant

if TYPE_CHECKING:
    from maia.api.responses import AttestedAnswer
    from maia.keystore.tpm import Tpm2Tools


app = command_group("Prove with a TPM 2.0 how a router has booted, and approve boots.")
_BYTES_MAX: Final = 1 << 20

DEVICE = opt(
    "As tpm2-tools name it: device:/dev/tpmrm0, or swtpm:path=/run/router.sock.",
    "--tpm",
    default="device:/dev/tpmrm0",
    envvar="MAIA_TPM",
    metavar="TPM",
)
INTERMEDIATES = opt("A certificate that leads to a root, in DER. May be repeated.", "--intermediate")


# ------------------------------------------------------------ with the TPM at hand


@app.command()
def attest(
    caller: DomainCaller,
    tpm: str = DEVICE,
    out: Path | None = opt("Where to write the router's statement, each time anew.", "--out", "-o"),
    folder: Path | None = opt("Where the attestation key is kept, sealed by its TPM. KEY.tpm if not given."),
    log: Path | None = opt(
        "The event log of the boot; of a device, the kernel's is taken. Without one, registers."
    ),
    intermediate: list[Path] | None = INTERMEDIATES,
    scan: Path | None = opt("What a launched scanner found and measured: JSON with `at` and `findings`."),
    watch: bool = flag("Stay, and prove the boot again before its level ends, until Ctrl-C."),
) -> None:
    """Prove a router's boot: enrol its TPM if need be, quote, and renew the router's statement.

    Examples:
        maia tpm attest --tpm device:/dev/tpmrm0 -k router.key -o router.identity
        maia tpm attest --tpm swtpm:path=/run/router.sock -k router.key -o router.identity --watch
    """
    from maia.cli.domain.identity import identity_from, write_identity
    from maia.keystore.tpm import prove_boot

    device = _device(tpm, folder or caller.key.with_name(f"{caller.key.name}.tpm"), log)
    certificates = [_bytes(one) for one in intermediate or ()]

    def once() -> float:
        with caller.client() as client:
            try:
                found = prove_boot(client, device, certificates, b"" if scan is None else _bytes(scan))
            except Refusal:
                if out is not None:  # without the level that the router has lost
                    write_identity(out, identity_from(client)[0])
                raise
            kept = Answer()
            if out is not None:
                signed, _ = identity_from(client)
                write_identity(out, signed)
                until = signed.statement.not_after
                kept = Answer(
                    row("statement", f"until {until}", not_after=until), row("written", out, file=out)
                )
        show(Answer(_attested(found), kept))
        return max((Instant.parse(found.until) - moment(None)) / SECOND / 2, 1.0)

    repeat(once, watch=watch)


@app.command()
def measure(
    name: str = need("What this boot is called."),
    level: int = need("What it is worth.", min=1, max=255),
    pcr: list[int] = need("A register; of a launch, 17 to 22. May be repeated.", min=0, max=22),
    tpm: str = DEVICE,
    out: Path | None = opt("A file for `maia tpm approve`; one that is there grows.", "--out", "-o"),
) -> Answer:
    """Read the registers of a machine that has booted well, for `maia tpm approve`.

    Examples:
        maia tpm measure --tpm device:/dev/tpmrm0 --pcr 0 --pcr 7 --name 'router 5.2' --level 2 -o
          boots.json (then: maia tpm approve boots.json)
    """
    import json
    from tempfile import TemporaryDirectory

    pcrs = tuple(sorted(set(pcr)))
    with TemporaryDirectory() as unused:
        values = _device(tpm, Path(unused), None).registers(pcrs)
    boot = {"name": name, "level": level, "values": {str(one): values[one].hex() for one in pcrs}}
    boots: dict[str, Any] = {"pcrs": list(pcrs), "configurations": []}
    if out is not None and out.exists():
        try:
            boots = json.loads(read_text(out))
            others = [one for one in boots["configurations"] if one["name"] != name]
            if boots["pcrs"] != list(pcrs):
                raise BadFile(f"`{out}` is about other registers: {boots['pcrs']}")
        except (ValueError, TypeError, KeyError):
            raise BadFile(f"`{out}` is not a list of approved boots") from None
        boots["configurations"] = others
    boots["configurations"].append(boot)
    if out is not None:
        write_new(out, json.dumps(boots, indent=1) + "\n", overwrite=True)
    return Answer(
        row("register", [f"{one} = {values[one].hex()}" for one in pcrs], **boots), row("written", out)
    )


def _device(address: str, folder: Path, log: Path | None) -> Tpm2Tools:
    from maia.keystore.tpm import BOOT_LOG, Tpm2Tools

    if log is None and address.startswith(("device", "tabrmd")) and BOOT_LOG.exists():
        log = BOOT_LOG
    return Tpm2Tools(address, folder, log)


# ------------------------------------------------------------ step by step, with files


@app.command()
def enrol(
    caller: DomainCaller,
    endorsement: Path | None = opt("The TPM's endorsement certificate, in DER."),
    attestation_key: Path | None = opt(
        "The public part of the attestation key, as `tpm2_createak -u` writes it."
    ),
    intermediate: list[Path] | None = INTERMEDIATES,
    out: Path | None = opt("Where to write the credential for the TPM to open.", "--out", "-o"),
    secret: Path | None = opt("What the TPM found in the credential: ends the enrolment."),
    force: bool = FORCE,
) -> Answer:
    """Enrol a router's TPM, in two steps: fetch a credential, and show that the TPM has opened it.

    Examples:
        maia tpm enrol --endorsement ek.der --attestation-key ak.pub -k router.key -o credential.bin
        maia tpm enrol --secret secret.bin -k router.key (in between: tpm2_activatecredential -c ak.ctx
          -C ek.ctx -i credential.bin -o secret.bin)
    """
    first = (endorsement, attestation_key, out)
    if secret is not None:
        if any(one is not None for one in first):
            raise typer.BadParameter("--secret is the second step: it goes with no other file")
        caller.ask(api.ACTIVATE_TPM, ActivationBody(_bytes(secret)))
        return row("enrolled", "the TPM has opened its credential", enrolled=True)
    if endorsement is None or attestation_key is None or out is None:
        raise typer.BadParameter("say --endorsement, --attestation-key and --out; or --secret, afterwards")
    check_new(out, overwrite=force)
    body = EnrolBody(
        _bytes(endorsement), _bytes(attestation_key), [_bytes(one) for one in intermediate or ()]
    )
    found = caller.ask(api.ENROL_TPM, body)
    write_new(out, found.credential, overwrite=force)
    then = row("next", "tpm2_activatecredential, then `maia tpm enrol --secret`", enrolled=False)
    return Answer(row("written", out, file=out), then)


@app.command()
def quote(
    caller: DomainCaller,
    nonce_out: Path | None = opt("First step: where to write the nonce, in hexadecimal digits."),
    quoted: Path | None = opt("What `tpm2_quote -m` wrote."),
    signature: Path | None = opt("What `tpm2_quote -s` wrote."),
    log: Path | None = opt("The event log of the boot."),
    force: bool = FORCE,
) -> Answer:
    """Prove a router's boot, in two steps: fetch a nonce, and show the quote for it.

    Examples:
        maia tpm quote --nonce-out nonce -k router.key
        maia tpm quote --quoted q.msg --signature q.sig --log
          /sys/kernel/security/tpm0/binary_bios_measurements -k router.key (in between: tpm2_quote -c
          ak.ctx -l sha256:0,4,7 -q $(cat nonce) -m q.msg -s q.sig)
    """
    if nonce_out is not None:
        check_new(nonce_out, overwrite=force)
        given = caller.ask(api.TPM_NONCE)
        write_new(nonce_out, f"{given.nonce}\n", overwrite=force)
        registers = row("registers", f"sha256:{','.join(map(str, given.pcrs))}", pcrs=given.pcrs)
        return Answer(rows(nonce=given.nonce), registers, rows(until=given.until))
    if quoted is None or signature is None or log is None:
        raise typer.BadParameter("say --nonce-out; or --quoted, --signature and --log, afterwards")
    body = QuoteBody(_bytes(quoted), _bytes(signature), _bytes(log))
    return _attested(caller.ask(api.TPM_QUOTE, body))


def _attested(found: AttestedAnswer) -> Answer:
    rebooted = "since the quote before" if found.is_rebooted else None
    boot = row("boot", found.configuration, **plain(found))
    return Answer(boot, row("level", found.level), row("until", found.until), row("rebooted", rebooted))


@app.command()
def approve(
    *,
    file: Path = arg("A JSON file with `pcrs` and `configurations`."),
    caller: EntitledCaller,
    root: list[Path] | None = opt("A certificate of a maker of TPMs, in PEM or DER. May be repeated."),
) -> Answer:
    """Approve exactly these boots and makers of TPMs; routers prove their boot again.

    Examples:
        maia tpm approve boots.json --root maker.pem -k desk.key --credentials certs ({"pcrs": [0],
          "configurations": [{"name": "v5", "level": 2, "values": {"0": "00…"}}]})
    """
    import json

    import msgspec

    try:
        said = json.loads(read_text(file))
        body = msgspec.convert({**said, "roots": [_root(one) for one in root or ()]}, ApprovedBody)
    except (ValueError, TypeError, RecursionError) as problem:
        raise BadFile(f"`{file}` is not a list of approved boots: {str(problem)[:200]}") from None
    found = caller.ask(api.APPROVE_BOOTS, body)
    return Answer(
        row("version", found.version, **plain(found)),
        row("registers", f"sha256:{','.join(map(str, found.pcrs))}"),
        row("boot", [f"{one.name}, level {one.level}" for one in found.configurations]),
        row("root", found.roots),
    )


def _root(file: Path) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    data = _bytes(file)
    if not data.startswith(b"-----"):
        return data
    try:
        return x509.load_pem_x509_certificate(data).public_bytes(Encoding.DER)
    except ValueError:
        raise BadFile(f"`{file}` holds no certificate in PEM") from None


def _bytes(file: Path) -> bytes:
    """Read a file of bytes; files of the kernel say no size, so the limit is on what is read."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_BYTES_MAX + 1)
    except OSError as problem:
        raise BadFile(f"`{file}` cannot be read: {problem.strerror}") from None
    if len(data) > _BYTES_MAX:
        raise BadFile(f"`{file}` has more than {_BYTES_MAX} bytes")
    return data
