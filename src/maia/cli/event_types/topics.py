"""`maia topic`: declare a tree of topics; `maia type` reads and changes its declaration."""

from __future__ import annotations

from pathlib import Path

from maia.cli.command import arg, flag, opt
from maia.cli.event_types.types import OWNER, SigningOptions
from maia.cli.inputs import (
    attribute_from_words,
    command_group,
    read_certificates,
    read_definition,
    read_owner,
)
from maia.cli.organisation import opened
from maia.cli.output import Answer
from maia.errors import BadInput

app = command_group("Declare topics; `maia publish --topic` and `maia subscribe --topic` use them.")


@app.callback()
def topics() -> None:
    """Let Typer know that `declare` is a command of its own."""


@app.command()
def declare(
    *,
    root: str = arg("The root of the tree, such as /news."),
    text: list[str] | None = opt("A text beside the payload of plain topics."),
    attributes: list[str] | None = opt(
        "name:kind or name:kind:uid, of typed topics; repeatable.", "--attribute", "-a"
    ),
    like: Path | None = opt("Typed topics with the attributes of this definition."),
    several: bool = flag("A publication may be on several topics at once; readers of two get it once."),
    owner: str | None = OWNER,
    signing: SigningOptions,
) -> Answer:
    """Declare the topics below ROOT and sign that: plain (a payload), or typed (--attribute, --like).

    Examples:
        maia topic declare /news --org city
        maia topic declare /news -k city.key -o news.type
        maia topic declare /news -k city.key --text headline -o news.type
        maia topic declare /alarms -k city.key --several -o alarms.type
        maia topic declare /traffic -k city.key --like numberplate.type -o traffic.type
        maia topic declare /prices -k city.key -a price:float -a currency:string -o prices.type
    """
    from maia.predicates.path_patterns import parse_path_pattern
    from maia.types import TypeDefinition, sign_definition
    from maia.types.definition import PUBLICATION, plain_attributes, topic_attributes, tree_name

    if sum(map(bool, (text, attributes, like))) > 1:
        raise BadInput(
            "INPUT-TOPIC-DECLARATION", "say --text for plain topics, or --attribute or --like for typed ones"
        )
    if len(parse_path_pattern(root).levels) > 1:
        raise BadInput(
            "INPUT-TOPIC-DECLARATION", f"`{root}` is no root: one declaration is for all topics below `/…`"
        )
    exact = signing.exact(owner)
    is_signed = signing.protection == "signed"
    if like is not None:
        shape = topic_attributes(read_definition(like).definition.attributes)
    elif attributes:
        shape = topic_attributes(attribute_from_words(words) for words in attributes)
    else:
        shape = plain_attributes(attribute_from_words(f"{name}:string") for name in text or ())
    if several:
        shape = (*shape, PUBLICATION)
    if exact is None:
        ours, level = opened(signing.org), signing.level
        name = tree_name(ours.principal, root).name
        return signing.kept(
            ours.define_shape(
                name, shape, sealed=level is not None, level=level or "attribute", signed=is_signed
            )
        )
    signing_key = exact[0]
    whose = signing_key.principal if owner is None else read_owner(owner)
    embedded = tuple(read_certificates(signing.credentials or ()))
    sealed = signing.chosen(before=None, signer=signing_key.principal)
    definition = TypeDefinition(tree_name(whose, root), None, shape, embedded, sealed, signed=is_signed)
    return signing.kept(sign_definition(definition, signing_key))
