"""`--as PROFILE` of every command that connects to a network or to a domain.

A profile fills the options that were not given. `--as` is an option of the
command, so it is stronger than the environment; a profile that comes from
`MAIA_PROFILE` or `maia profile use` is weaker than the environment.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from maia.cli.output import use_folder
from maia.errors import Refusal
from maia.private_files import own_folder

if TYPE_CHECKING:
    from maia.profile import Profile


VARIABLE: Final = "MAIA_PROFILE"
PROFILE: Final = "--as"
_PATH_MAX: Final = 4096

_FILLED: Final = {
    "--key": "key",
    "--credentials": "credentials",
    "--network": "network",
    "--coordinator": "coordinator",
    "--broker": "brokers",
    "--brokers-of": "brokers_of",
    "--types": "types",
    "--server": "server",
    "--domain": "domain",
    "--wallet": "wallet",
    "--identity": "identity",
    "--provider": "providers",
    "--log": "log",
    "--keys-at": "keys",
    "--principal": "principal",
}
"""Which setting of a profile is the default of which option."""

_COMMANDS: Final = frozenset(
    {"publish", "subscribe", "explain", "login", "type fetch", "type versions", "cert revoke"}
)
_NAMING: Final = frozenset({"cert show", "cert verify", "cert find", "key known", "log list", "type show"})
"""Commands that take nothing from a profile but its names."""
_GROUPS: Final = ("domain ", "pipeline ")
_NOT: Final = frozenset({"domain serve", "domain status", "pipeline generate"})
"""Commands that configure a server, or that need no participant."""


def takes_profile(path: str, options: Sequence[object]) -> bool:
    """Return whether a command, by its path, takes what a participant needs from a profile."""
    if path in _NAMING:
        return True
    if path in _NOT or not any(one in _FILLED for one in options):
        return False
    return path in _COMMANDS or path.startswith(_GROUPS)


# Any: Typer carries a copy of Click inside, whose classes have no public names.
def is_filled(parameter: Any) -> bool:
    """Return whether a profile may say what an option says."""
    return any(one in _FILLED for one in parameter.opts)


def profile_choice() -> Any:
    """Return the option `--as`, which fills those that were not given."""
    about = "Take what is not given from this profile, or this organisation; "
    about += f"default: {VARIABLE}, or `maia profile use`."
    return typer.Option(
        PROFILE, metavar="PROFILE", is_eager=True, expose_value=False, callback=_fill, help=about
    )


def _fill(context: typer.Context, given: str | None) -> None:
    from maia.profile.profile import wallet_places

    profile = profile_named(given) if given is not None else used_profile()
    if profile is None:
        return
    context.obj = profile
    use_folder(profile.path)
    flags = {flag: one for one in context.command.params for flag in one.opts}
    filled = {flag: one for flag, one in flags.items() if flag in _FILLED}
    if "--from" in flags and "--from" in context.meta["words"]:
        filled.pop("--log", None)  # events come from elsewhere
    defaults: dict[str, object] = dict(context.default_map or {})
    for flag, parameter in filled.items():
        value = profile.principal() if flag == "--principal" else getattr(profile.settings, _FILLED[flag])
        if flag in ("--types", "--credentials") and "--wallet" not in filled:
            value = (*value, *wallet_places(profile.settings.wallet))
        if value is None or value == ():
            continue
        defaults[str(parameter.name)] = list(map(str, value)) if isinstance(value, tuple) else str(value)
        if given is not None:
            parameter.envvar = None
    context.default_map = defaults


@contextmanager
def explaining(context: typer.Context, type_name: str, action: str, where: str = "true") -> Iterator[None]:
    """Let a refusal by policy end with the command that says why, if a profile is in use.

    It asks for the same: with the filter that was refused.
    """
    try:
        yield
    except Refusal as problem:
        from maia.client.errors import ConnectionRefused

        profile = context.obj
        if not problem.code.startswith("POLICY-"):
            raise
        about: tuple[str, ...] = (type_name,)
        if isinstance(problem, ConnectionRefused):
            about, action = (), "connect"
        else:
            wanted = f"you may not {action}{' to' if action == 'subscribe' else ''} `{type_name}`"
            problem.args = (f"{wanted}: {problem.message}", *problem.args[1:])
        if profile is not None:
            words = ["maia", "explain", *about, "--as", str(profile.path), "--action", action]
            words += ["--where", where] if about and where != "true" else []
            problem.add_note(f"`{shlex.join(words)}` says why")
            if (
                about
                and problem.code == "POLICY-NO-CHAIN"
                and (way := how_to_get(profile, action, type_name))
            ):
                problem.add_note(way)
        raise


def how_to_get(profile: Profile | None, action: str, type_name: str) -> str | None:
    """Say how a member of an organisation gets a right that it lacks; None for other participants."""
    from maia.profile.files import ORGANISATION_FILE

    if profile is None or not (org := profile.path.absolute().parent / ORGANISATION_FILE).is_file():
        return None
    added = ["maia", "member", "add", profile.name, "--org", org.parent.name]
    words = [*added, "--may", f"{action}:{type_name}"]
    return f"`{shlex.join(words)}` gives it, if `{org.parent.name}` has it; else the owner grants it first"


def profile_named(word: str) -> Profile:
    """Return the profile that is meant; an organisation's folder stands for the organisation itself."""
    from maia.profile import find_profile
    from maia.profile.files import ORGANISATION_FILE

    if (Path(word) / ORGANISATION_FILE).is_file():
        from maia.organisation import Organisation

        return Organisation(word).profile
    return find_profile(word)


def used_profile() -> Profile | None:
    """Return the profile of the environment, or the one that was chosen with `maia profile use`."""
    from maia.profile import find_profile, read_profile

    given = os.environ.get(VARIABLE)
    if given:
        return find_profile(given)
    try:
        with used_profile_file().open(encoding="utf-8") as file:
            chosen = file.read(_PATH_MAX).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return read_profile(Path(chosen)) if chosen else None


def used_profile_file() -> Path:
    """Return the file that remembers the profile of this user."""
    return own_folder() / "profile"
