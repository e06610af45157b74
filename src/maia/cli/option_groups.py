"""How do commands share options? A parameter whose type is a dataclass stands for all of its fields.

    @dataclass(frozen=True, slots=True)
    class Caller:
        server: Server
        credentials: Shown = None

    def types(caller: Caller, as_json: AsJson = False) -> None: ...

`maia domain types` then has `--server`, `--credentials` and `--json`, and is handed a `Caller`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, get_type_hints

import typer


def expand_groups(app: typer.Typer) -> None:
    """Give every command below `app` the options of its groups."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = with_options(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            expand_groups(group.typer_instance)


# Any: commands take and return what they like.
def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with a parameter for each option, which are handed on in their groups."""
    given = signature(command, eval_str=True)
    kinds: dict[str, Any] = {name: one.annotation for name, one in given.parameters.items()}
    groups = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and is_dataclass(kind)}
    if not groups:
        return command
    parameters: list[Parameter] = []
    for name, one in given.parameters.items():
        if name in groups:
            hints = get_type_hints(groups[name], include_extras=True)
            parameters += [_parameter(each, hints[each.name]) for each in fields(groups[name])]
        else:
            parameters.append(one.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**options: Any) -> Any:
        for name, group in groups.items():
            options[name] = group(**{one.name: options.pop(one.name) for one in fields(group)})
        return command(**options)

    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__dict__["__signature__"] = given.replace(parameters=parameters)
    return run


def _parameter(one: Field[Any], annotation: object) -> Parameter:
    default = Parameter.empty if one.default is MISSING else one.default
    return Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
