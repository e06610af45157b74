"""What does a page consist of? Elements with text in them, so that nothing can become markup by accident.

A name, a filter or a reason that others chose is text wherever it goes (A102): only
`Element` makes tags, and tags and names of attributes come from this source alone.
Some texts are `Live`: they have an address in the page, and a stream sends what they change to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

_VOID: Final = frozenset({"input", "link", "meta", "br", "line"})
_LINKS: Final = frozenset({"action", "formaction", "href", "src"})
_RENAMED: Final = {"class_": "class", "for_": "for"}


@dataclass(frozen=True, slots=True)
class Element:
    """An element with attributes and what is in it."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """A text that changes while the page is open; its key says which one it is."""

    key: str
    text: str


Node: TypeAlias = Element | Live | str


def el(element: str, *children: Node | Iterable[Node] | None, **attributes: object) -> Element:
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
    return Element(element, tuple(found), tuple(flat))


def to_html(node: Node) -> str:
    """Write markup."""
    out: list[str] = []
    _write(node, out, None)
    return "".join(out)


def shape_and_texts(node: Node) -> tuple[str, dict[str, str]]:
    """Return markup without live texts, and those by their keys; while the first stays, those are sent."""
    out: list[str] = []
    texts: dict[str, str] = {}
    _write(node, out, texts)
    return "".join(out), texts


def _write(node: Node, out: list[str], texts: dict[str, str] | None) -> None:
    """Append markup to `out`; with `texts`, live texts go there instead."""
    if isinstance(node, str):
        out.append(escape(node))
    elif isinstance(node, Live):
        if texts is not None:
            texts[node.key] = node.text
        shown = escape(node.text) if texts is None else ""
        out.append(f'<span data-live="{escape(node.key)}">{shown}</span>')
    else:
        named = "".join([f' {name}="{escape(value)}"' for name, value in node.attributes])
        out.append(f"<{node.name}{named}>")
        if node.name not in _VOID:
            for child in node.children:
                _write(child, out, texts)
            out.append(f"</{node.name}>")
