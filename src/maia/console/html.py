"""What does a page consist of? Elements with text in them, so that nothing can become markup by accident.

A name, a filter or a reason that others chose is text wherever it goes (A102): only
`Element` makes tags, and tags and names of attributes come from this source alone.
Some texts are `Live`: they have an address in the page, and a stream sends what they change to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

__all__ = ["Element", "Live", "Node", "cells", "el", "skeleton", "to_html"]

_VOID: Final = frozenset({"input", "link", "meta", "br", "line"})
_LINKS: Final = frozenset({"action", "formaction", "href", "src"})
_RENAMED: Final = {"class_": "class", "for_": "for"}


@dataclass(frozen=True, slots=True)
class Element:
    """A tag with attributes and what is in it."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """A text that changes while the page is open; its key says which one it is."""

    key: str
    text: str


Node: TypeAlias = Element | Live | str


def el(tag: str, *children: Node | Iterable[Node] | None, **attributes: object) -> Element:
    """Make an element: `el("a", "Rights", href="/rights")`. None is left out; True is a bare attribute."""
    flat: list[Node] = []
    for child in children:
        if isinstance(child, (Element, Live, str)):
            flat.append(child)
        elif child is not None:
            flat.extend(child)
    found = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        written = _RENAMED.get(name, name.replace("_", "-"))
        text = "" if value is True else str(value)
        if written in _LINKS and (text[:1] not in ("/", "#") or text.startswith("//")):
            raise ValueError("a link leads to this console, and to nowhere else")
        found.append((written, text))
    return Element(tag, tuple(found), tuple(flat))


def to_html(node: Node) -> str:
    """Write markup."""
    return "".join(_written(node, is_blank=False))


def skeleton(node: Node) -> str:
    """Write markup without live texts: while it stays the same, only those need to be sent."""
    return "".join(_written(node, is_blank=True))


def cells(node: Node) -> dict[str, str]:
    """Return the live texts by their keys."""
    match node:
        case Live(key, text):
            return {key: text}
        case Element(_, _, children):
            return {key: text for child in children for key, text in cells(child).items()}
    return {}


def _written(node: Node, *, is_blank: bool) -> Iterator[str]:
    match node:
        case Live(key, text):
            yield f'<span data-live="{escape(key)}">{"" if is_blank else escape(text)}</span>'
        case Element(tag, attributes, children):
            yield f"<{tag}"
            for name, value in attributes:
                yield f' {name}="{escape(value)}"'
            yield ">"
            if tag not in _VOID:
                for child in children:
                    yield from _written(child, is_blank=is_blank)
                yield f"</{tag}>"
        case text:
            yield escape(text)
