"""`maia key`: make a key, and tell whose it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from maia.cli.inputs import AsJson, BadFile, read_principal, write_new
from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.credentials import Principal, SigningKey

__all__ = ["Force", "KeyFile", "app", "open_key"]

PASSPHRASE_VARIABLE: Final = "MAIA_PASSPHRASE"  # noqa: S105 - the name of a variable, not a secret

app = typer.Typer(help="Make keys and show whose they are.", no_args_is_help=True, rich_markup_mode=None)

KeyFile: TypeAlias = Annotated[
    Path, typer.Option("--key", "-k", help="The signing key: a file made by `maia key new`.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace the output file if it is there.")]


@app.command(epilog="Example: maia key new pito.key   (writes pito.key, and pito.pub to hand out)")
def new(
    file: Annotated[
        Path, typer.Argument(help="Where to keep the secret key; its public half goes beside it, as .pub.")
    ],
    passphrase: Annotated[
        bool,
        typer.Option("--passphrase", "-p", help=f"Encrypt the key; asks, or takes {PASSPHRASE_VARIABLE}."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a new key and keep it in a file that only you can read."""
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
    answer(lines, record, as_json=as_json)


@app.command(epilog="Example: maia key transformations transformations.key --issuer met.pub")
def transformations(
    file: Annotated[Path, typer.Argument(help="Where to keep the secret.")],
    issuer: Annotated[str, typer.Option(help="Whose pseudonyms and noise it keys: a key or a .pub file.")],
    as_json: AsJson = False,
) -> None:
    """Make a secret for pseudonyms and noise, for the brokers and pipelines that apply them."""
    from maia.keystore.transformation_keys import create_transformation_keys

    principal = read_principal(issuer)
    create_transformation_keys(file, principal)
    lines = [f"secret of    {principal}", f"kept in      {file} (only you can read it)"]
    answer(lines, {"issuer": str(principal), "secret_file": str(file)}, as_json=as_json)


@app.command(epilog="Example: maia key show pito.key")
def show(
    file: Annotated[str, typer.Argument(help="A key file or a .pub file.")], as_json: AsJson = False
) -> None:
    """Show whose key a file holds. The secret is never shown."""
    principal = _principal_in(Path(file))
    answer([str(principal)], {"principal": str(principal), "file": file}, as_json=as_json)


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


def _principal_in(path: Path) -> Principal:
    from maia.keystore.key_files import public_half

    return read_principal(str(path)) if path.suffix == ".pub" else public_half(path)


def _new_passphrase() -> str:
    given = os.environ.get(PASSPHRASE_VARIABLE)
    return given or str(typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True))
