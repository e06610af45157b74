"""`maia profile`: show a participant's profile, and choose the one that commands use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from maia.cli.inputs import AsJson
from maia.cli.output import answer
from maia.cli.profile_option import VARIABLE, used_profile, used_profile_file

if TYPE_CHECKING:
    from maia.profile import Profile
    from maia.profile.profile import ProfileSettings


app = typer.Typer(
    help="Show a participant's profile, and choose the one that commands use.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog="Examples: maia profile show lab.maia; maia profile show")
def show(
    profile: Annotated[str | None, typer.Argument(help="A profile; default: the one in use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a profile names; the secret key is never shown."""
    from maia.profile import NoSuchProfile, find_profile

    found = used_profile() if profile is None else find_profile(profile)
    if found is None:
        raise NoSuchProfile(f"no profile is in use: name one, set {VARIABLE}, or run `maia profile use`")
    record = _record(found)
    lines = [f"{name:<12} {' '.join(one) if isinstance(one, list) else one}" for name, one in record.items()]
    answer(lines, record, as_json=as_json)


@app.command(epilog="Examples: maia profile use lab.maia; maia profile use --none")
def use(
    profile: Annotated[str | None, typer.Argument(help="The profile that commands use from now on.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no profile any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Choose the profile that commands of this user take what is not given from."""
    from maia.private_files import create_private, make_private_folder
    from maia.profile import find_profile

    if (profile is None) == (not none):
        raise typer.BadParameter("name a profile, or say --none")
    file = used_profile_file()
    if profile is None:
        file.unlink(missing_ok=True)
        answer(["no profile is in use"], {"profile": None}, as_json=as_json)
        return
    found = find_profile(profile)
    make_private_folder(file.parent)
    with create_private(file) as written:
        written.write(f"{found.path.resolve()}\n".encode())
    answer([f"in use       {found.path.resolve()}"], {"profile": str(found.path.resolve())}, as_json=as_json)


def _record(profile: Profile) -> dict[str, object]:
    import msgspec

    from maia.config.input_files import read_definitions
    from maia.keystore.key_files import public_half

    settings: ProfileSettings = profile.settings
    record: dict[str, object] = {"profile": str(profile.path)}
    if settings.key is not None:
        record["principal"] = str(public_half(settings.key))
    for one in msgspec.structs.fields(settings):
        value = getattr(settings, one.name)
        if value not in (None, ()):
            record[one.name] = [str(each) for each in value] if isinstance(value, tuple) else str(value)
    names = {one.definition.name.name for one in read_definitions(settings.types)}
    return record | {"knows": sorted(names)}
