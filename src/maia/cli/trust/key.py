"""`maia key`: make a key, say whose it is, and by which names others are known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from maia.cli.command import arg, flag, need, opt
from maia.cli.inputs import BadFile, command_group, read_principal, read_text, write_new
from maia.cli.output import answer, book
from maia.config.input_files import kind_of_file
from maia.private_files import own_folder

if TYPE_CHECKING:
    from maia.credentials import Principal, SigningKey


PASSPHRASE_VARIABLE: Final = "MAIA_PASSPHRASE"  # noqa: S105 - the name of a variable, not a secret

app = command_group("Make keys and show whose they are.")

KeyFile: TypeAlias = Annotated[
    Path, typer.Option("--key", "-k", help="The signing key: a file made by `maia key new`.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace the output file if it is there.")]


@app.command()
def new(
    file: Path = arg("Where to keep the secret key; its public half goes beside it, as .pub."),
    passphrase: bool = flag(f"Encrypt the key; asks, or takes {PASSPHRASE_VARIABLE}.", "--passphrase", "-p"),
) -> None:
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
    lines = [
        str(key.principal),
        f"secret key   {file} (only you can read it; keep it)",
        f"public half  {public}",
    ]
    record = {"principal": str(key.principal), "secret_file": str(file), "public_file": str(public)}
    answer(lines, record, as_json=as_json, whole=True)


@app.command()
def transformations(
    file: Path = arg("Where to keep the secret."),
    issuer: str = need("Whose pseudonyms and noise it keys: a key or a .pub file."),
) -> None:
    """Make a secret for pseudonyms and noise, for the brokers and pipelines that apply them.

    Examples:
        maia key transformations transformations.key --issuer met.pub
    """
    from maia.keystore.lookup_tables import create_transformation_keys

    principal = read_principal(issuer)
    create_transformation_keys(file, principal)
    lines = [f"secret of    {principal}", f"kept in      {file} (only you can read it)"]
    answer(lines, {"issuer": str(principal), "secret_file": str(file)}, as_json=as_json)


@app.command()
def show(file: str = arg("A key file, a .pub file, or a name that you know.")) -> None:
    """Show whose key a file holds. The secret is never shown.

    Examples:
        maia key show pito.key
    """
    principal = _principal_in(file)
    answer([str(principal)], {"principal": str(principal), "file": file}, as_json=as_json, whole=True)


@app.command()
def remember(
    principal: str = arg("A key or a .pub file.", metavar="KEY"),
    name: str | None = opt("What you call it; default: the name of the .pub file."),
    force: Force = False,
) -> None:
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
    lines = [f"{called:<12} {whom}", f"kept in      {folder / f'{called}.pub'}"]
    answer(lines, {"name": called, "principal": str(whom)}, as_json=as_json, whole=True)


@app.command()
def known() -> None:
    """List the keys that you know by name, who chose each name, and where it is written.

    Examples:
        maia key known
        maia key known --as lab.maia --json
    """
    keys = book().keys.values()
    lines = [f"{one.name:<12} {one.principal}  by {one.chosen_by}  {one.place}" for one in keys]
    records = [
        {
            "name": one.name,
            "principal": str(one.principal),
            "chosen_by": one.chosen_by,
            "file": str(one.place),
        }
        for one in keys
    ]
    answer(lines or ["none yet: `maia key remember`"], {"keys": records}, as_json=as_json, whole=True)


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


def _principal_in(word: str) -> Principal:
    from maia.keystore.key_files import public_half

    path = Path(word)
    is_secret = kind_of_file(read_text(path)) == "a secret key" if path.is_file() else path.suffix == ".key"
    return public_half(path) if is_secret else read_principal(word)


def _new_passphrase() -> str:
    given = os.environ.get(PASSPHRASE_VARIABLE)
    return given or str(typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True))
