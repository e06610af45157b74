"""How is a command declared, and what do all of them have in common?

A command is a function. `opt`, `need`, `flag` and `arg` declare its options as
defaults of its parameters; a parameter whose type is a class of `options`
stands for all fields of that class. Its docstring is its help, with examples
behind `Examples:`. It returns its `Answer`, or yields several. Every command
has `--json`, and one that a participant calls has `--as PROFILE`: neither is
declared by the commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import Annotated, Any, Final, TypeVar, dataclass_transform, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from maia.cli.help import write_examples
from maia.cli.output import Answer, show, use_json
from maia.cli.profile_option import PROFILE, is_filled, profile_choice, takes_profile

_Class = TypeVar("_Class")
_JSON: Final = typer.Option("--json", help="Answer with one JSON object, for programs.")
_EXAMPLES: Final = re.compile(r"\n+Examples?:\n")


@dataclass(frozen=True, slots=True)
class Declared:
    """An option or argument as it was declared."""

    more: Mapping[str, Any]
    default: Any
    flags: tuple[str, ...] | None = None
    """How an option is written; none: by its name. An argument has None."""

    def info(self, name: str) -> Any:
        """Return what Typer is told of it."""
        if self.flags is None:
            return typer.Argument(**self.more)
        return typer.Option(*(self.flags or (f"--{name.replace('_', '-')}",)), **self.more)


# Any, here and below: a declaration stands for a value of the option's own type.
def opt(about: str, *flags: str, default: Any = None, **more: Any) -> Any:
    """Declare an option that may be left out."""
    return Declared(more | {"help": about}, default, flags)


def need(about: str, *flags: str, **more: Any) -> Any:
    """Declare an option that must be given."""
    return opt(about, *flags, default=MISSING, **more)


def flag(about: str, *flags: str, **more: Any) -> Any:
    """Declare an option that is given or not."""
    return opt(about, *flags, default=False, **more)


def arg(about: str, default: Any = MISSING, **more: Any) -> Any:
    """Declare an argument; without a default it must be given."""
    return Declared(more | {"help": about}, default)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(cls: type[_Class]) -> type[_Class]:
    """Return a class of options that several commands share, as a frozen dataclass."""
    declared = dict(getattr(cls, "declared", {}))
    for name in cls.__annotations__:
        if isinstance(found := cls.__dict__.get(name), Declared):
            declared[name] = found
            if found.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, found.default)
    cls.declared = declared  # type: ignore[attr-defined]  # only this module asks for it
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


class Command(TyperCommand):
    """A command whose help shows examples line by line, and what a profile may say in its place."""

    # Any: Typer carries a copy of Click inside, whose classes have no public names.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command, which a profile's defaults depend on."""
        ctx.meta["words"] = tuple(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options; with `--as`, what a profile fills is required only without it."""
        parts: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        has_profile = any(PROFILE in one.opts for one in self.params)
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                name, text = record
                if has_profile and is_filled(one):
                    text = re.sub(r"required\]$", f"required without {PROFILE}]", text)
                parts["Arguments" if one.param_type_name == "argument" else "Options"].append((name, text))
        for heading, rows in parts.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write examples, each in lines that can be copied."""
        if self.epilog:
            write_examples(self.epilog, formatter)


class CommandWithMore(TyperGroup):
    """A command that has others below it, and does something by itself where none is named."""

    # Any: as above.
    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write examples, each in lines that can be copied."""
        if self.epilog:
            write_examples(self.epilog, formatter)


def only(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return a group with only the command below it that `words` name; the whole group, if they name none."""
    for one in app.registered_commands:
        if list(words[:1]) == [_name(one)]:
            found = copy(app)
            found.registered_commands, found.registered_groups = [one], []
            return found
    for group in app.registered_groups:
        if list(words[:1]) == [group.name] and group.typer_instance is not None:
            found, below = copy(app), copy(group)
            below.typer_instance = only(group.typer_instance, words[1:])
            found.registered_commands, found.registered_groups = [], [below]
            return found
    return app


def _name(command: Any) -> str:
    return str(command.name or command.callback.__name__.replace("_", "-"))


def complete(app: typer.Typer, path: str) -> None:
    """Give every command below `app` what all commands have, and the one that it is by itself."""
    by_itself = app.registered_callback
    if by_itself is not None and by_itself.callback is not None and by_itself.invoke_without_command is True:
        if by_itself.cls is not CommandWithMore:  # a process may run several
            about = described(by_itself.callback, path)
            by_itself.callback, by_itself.help = about["callback"], about["help"]
            by_itself.epilog = about["epilog"]
        by_itself.cls = CommandWithMore
    for command in app.registered_commands:
        if command.callback is not None and command.cls is not Command:  # a process may run several
            about = described(command.callback, f"{path} {_name(command)}")
            command.callback = about.pop("callback")
            command.cls, command.help = Command, about["help"]
            command.epilog = command.epilog or about["epilog"]
    for below in app.registered_groups:
        if below.typer_instance is not None:
            complete(below.typer_instance, f"{path} {below.name}")


# Any: commands take and return what they like.
def described(command: Callable[..., Any], path: str) -> dict[str, Any]:
    """Return what Typer is told about a command: the function it calls, its help and its examples."""
    about, *below = _EXAMPLES.split(cleandoc(command.__doc__ or ""), maxsplit=1)
    lines = [line.strip() for line in "".join(below).splitlines()]
    found: list[str] = []
    for line in lines:
        if line.startswith(("maia ", "…")) or not found:
            found.append(line)
        else:
            found[-1] += f" {line}"
    epilog = f"Example{'s' if len(found) > 1 else ''}: {'; '.join(found)}" if found else None
    return {"callback": with_options(command, path), "help": about, "epilog": epilog}


def with_options(command: Callable[..., Any], path: str) -> Callable[..., Any]:
    """Return a function with a parameter for each option, which prints the answer of `command`."""
    given = signature(command, eval_str=True)
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for name, one in given.parameters.items():
        if isinstance(one.annotation, type) and is_dataclass(one.annotation):
            groups[name] = one.annotation
            hints = get_type_hints(one.annotation, include_extras=True)
            declared = getattr(one.annotation, "declared", {})
            for each in fields(one.annotation):
                said = declared.get(each.name)
                info = None if said is None else said.info(each.name)
                parameters.append(_parameter(each.name, hints[each.name], info, each.default))
        elif isinstance(said := one.default, Declared):
            parameters.append(_parameter(name, one.annotation, said.info(name), said.default))
        else:
            parameters.append(one.replace(kind=Parameter.KEYWORD_ONLY))
    if takes_profile(path, [flag for one in parameters for flag in _flags(one)]):
        parameters.insert(0, _parameter("profile", str | None, profile_choice(), None))
    if "as_json" not in given.parameters:
        parameters.append(_parameter("as_json", bool, _JSON, False))
    of_all = {"profile", "as_json"} - {
        *given.parameters,
        *(each.name for one in groups.values() for each in fields(one)),
    }

    @wraps(command)
    def run(**words: Any) -> Any:
        use_json(words["as_json"])
        for name in of_all:
            words.pop(name, None)
        for name, kind in groups.items():
            words[name] = kind(**{one.name: words.pop(one.name) for one in fields(kind)})
        found = command(**words)
        status = 0
        for one in [found] if isinstance(found, Answer) else found if isinstance(found, Iterator) else ():
            status = show(one)
        return found if isinstance(found, int) else status

    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__dict__["__signature__"] = given.replace(parameters=parameters, return_annotation=int)
    return run


def _parameter(name: str, kind: Any, info: Any, default: Any) -> Parameter:
    whole = kind if info is None else Annotated[kind, info]
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=whole)


def _flags(one: Parameter) -> list[object]:
    """Return how an option is written; Typer has the first in the place of a default, until later."""
    infos = getattr(one.annotation, "__metadata__", ())
    return [flag for each in infos for flag in (each.default, *(each.param_decls or ()))]
