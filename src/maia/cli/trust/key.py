"""`maia key`: make a key, say whose it is, and by which names others are known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import arg, flag, need, opt
from maia.cli.inputs import BadFile, command_group, read_principal, read_text, write_new
from maia.cli.output import Answer, book, row, several
from maia.config.input_files import kind_of_file
from maia.private_files import own_folder

if TYPE_CHECKING:
    from maia.credentials import SigningKey


PASSPHRASE_VARIABLE: Final = "MAIA_PASSPHRASE"  # noqa: S105 - the name of a variable, not a secret

app = command_group("Make keys and show whose they are.")

KEY_FILE = need("The signing key: a file made by `maia key new`.", "--key", "-k")
FORCE = flag("Replace the output file if it is there.", "--force")


@app.command()
def new(
    file: Path = arg("Where to keep the secret key; its public half goes beside it, as .pub."),
    passphrase: bool = flag(f"Encrypt the key; asks, or takes {PASSPHRASE_VARIABLE}.", "--passphrase", "-p"),
) -> Answer:
    """Make a new key and keep it in a file that only you can read.

    Examples:
        maia key new pito.key (writes pito.key, and pito.pub to hand out)
    """
    from maia.keystore.key_files import create_key_file, new_signing_key

    public = file.with_suffix(".pub")
    if public == file:
        raise BadFile(
            f"`{file}` would be both the secret key and its public half; name it with another ending"
        )
    if public.exists():
        raise BadFile(f"`{public}` is already there and belongs to another key")
    secret = _new_passphrase() if passphrase else None
    key = new_signing_key()
    create_key_file(file, key, secret)
    write_new(public, f"{key.principal}\n", overwrite=False)
    return Answer(
        row("", key.principal, principal=key.principal),
        row("secret key", f"{file} (only you can read it; keep it)", secret_file=file),
        row("public half", public, public_file=public),
        whole=True,
    )


@app.command()
def request(
    key: Path = KEY_FILE,
    name: str = need("The X.509 name: CN=anna,O=Norway."),
    out: Path = need("The request to write, in PEM.", "--out", "-o"),
    force: bool = FORCE,
) -> Answer:
    """Ask an X.509 authority for a certificate of your key: a request (PKCS#10) that it signs.

    An authority that uses OpenSSL signs it with
    `openssl x509 -req -in anna.csr -CA ca.pem -CAkey ca.key -days 365 -out anna.pem`.

    Examples:
        maia key request -k anna.key --name 'CN=anna,O=Norway' -o anna.csr
    """
    signing = open_key(key)
    write_new(out, signing.x509_request(name).decode(), overwrite=force)
    return row("request", out, file=out, principal=signing.principal)


@app.command()
def transformations(
    file: Path = arg("Where to keep the secret."),
    issuer: str = need("Whose pseudonyms and noise it keys: a key or a .pub file."),
) -> Answer:
    """Make a secret for pseudonyms and noise, for the brokers and pipelines that apply them.

    Examples:
        maia key transformations transformations.key --issuer met.pub
    """
    from maia.keystore.lookup_tables import create_transformation_keys

    principal = read_principal(issuer)
    create_transformation_keys(file, principal)
    kept = row("kept in", f"{file} (only you can read it)", secret_file=file)
    return Answer(row("secret of", principal, issuer=principal), kept)


@app.command()
def show(file: str = arg("A key file, a .pub file, or a name that you know.")) -> Answer:
    """Show whose key a file holds. The secret is never shown.

    Examples:
        maia key show pito.key
    """
    from maia.keystore.key_files import public_half

    path = Path(file)
    is_secret = kind_of_file(read_text(path)) == "a secret key" if path.is_file() else path.suffix == ".key"
    principal = public_half(path) if is_secret else read_principal(file)
    return Answer(row("", principal, principal=principal, file=file), whole=True)


@app.command()
def remember(
    principal: str = arg("A key or a .pub file.", metavar="KEY"),
    name: str | None = opt("What you call it; default: the name of the .pub file."),
    force: bool = FORCE,
) -> Answer:
    """Keep a key in your own book of names, by which every command shows it and takes it from then on.

    Examples:
        maia key remember institute.pub
        maia key remember desk.pub --name 'night desk'
    """
    from maia.private_files import make_private_folder
    from maia.profile.address_book import clear_name

    whom = read_principal(principal)
    called = clear_name(Path(principal).stem if name is None and principal.endswith(".pub") else name or "")
    folder = own_folder()
    make_private_folder(folder)
    write_new(folder / f"{called}.pub", f"{whom}\n", overwrite=force)
    kept = row("kept in", folder / f"{called}.pub")
    return Answer(row(called, whom, name=called, principal=whom), kept, whole=True)


@app.command()
def known() -> Answer:
    """List the keys that you know by name, who chose each name, and where it is written.

    Examples:
        maia key known
        maia key known --as lab.maia --json
    """
    found = [
        row(
            one.name, f"{one.principal}  by {one.chosen_by}  {one.place}",
            name=one.name, principal=one.principal, chosen_by=one.chosen_by, file=one.place,
        )
        for one in book().keys.values()
    ]  # fmt: skip
    return Answer(several("keys", found, none="none yet: `maia key remember`"), whole=True)


def open_key(path: Path) -> SigningKey:
    """Load a signing key, asking for its passphrase only if it has one."""
    from maia.keystore.key_files import WrongPassphrase, load_signing_key

    given = os.environ.get(PASSPHRASE_VARIABLE)
    try:
        return load_signing_key(path)
    except WrongPassphrase:
        return load_signing_key(
            path, given or typer.prompt(f"passphrase of {path}", hide_input=True, err=True)
        )


def _new_passphrase() -> str:
    given = os.environ.get(PASSPHRASE_VARIABLE)
    return given or str(typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True))
