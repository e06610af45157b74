"""What is a page? A function that finds out, as the principal that is signed in, and one that draws.

Both addresses of a page, `/rights` and `/rights.json`, begin with the same data, so the twin shows what
the page shows and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from maia.console.config import HeldProfile
from maia.console.network import Network
from maia.console.principal import SignedIn
from maia.console.rights import ShownNames
from maia.console.sessions import BrowserSession
from maia.console.suggestions import Suggestions, suggestions
from maia.console.works import Works
from maia.events import Instant

# ------------------------------------------------------------ elements
#
# A page consists of elements with text in them, so that nothing can become markup by accident.
#
# A name, a filter or a reason that others chose is text wherever it goes (A102): only
# `Element` makes tags, and tags and names of attributes come from this source alone.
# Some texts are `Live`: they have an address in the page, and a stream sends what they change to.


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
    tag: str = "span"
    """Within a drawing, `tspan`."""


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
        out.append(f'<{node.tag} data-live="{escape(node.key)}">{shown}</{node.tag}>')
    else:
        named = "".join([f' {name}="{escape(value)}"' for name, value in node.attributes])
        out.append(f"<{node.name}{named}>")
        if node.name not in _VOID:
            for child in node.children:
                _write(child, out, texts)
            out.append(f"</{node.name}>")


# Any: each page has values of its own, all of them plain values of JSON.
Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Visit:
    """One look at a page: who looks, in which session, and what was asked."""

    acting: SignedIn
    session: BrowserSession
    network: Network
    acts: frozenset[str]
    query: Mapping[str, str]
    now: Instant
    works: Works

    @property
    def held(self) -> HeldProfile:
        """Return the profile that is signed in."""
        return self.acting.held

    async def names(self) -> ShownNames:
        """Return by which names keys and attributes are shown."""
        return ShownNames(await self.acting.book(), await self.acting.types(self.acts))

    async def suggestions(self) -> Suggestions:
        """Return what the fields of a page offer."""
        return suggestions(await self.acting.entries(self.acts), await self.names(), self.now)

    def asked(self, name: str, most: int = 512) -> str:
        """Return a word of the query, within a limit."""
        return self.query.get(name, "")[:most].strip()


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its address, its name, the act that its readers need, its data and how it is drawn."""

    path: str
    title: str
    data: Callable[[Visit], Awaitable[Data]]
    view: Callable[[Data], Sequence[Node]]
    act: str | None = None
    is_live: bool = False
    is_in_menu: bool = True


# ------------------------------------------------------------ what pages have in common


_KEY_BESIDE: Final = re.compile(r" \((?:ed25519|quorum):([0-9a-f]+…)\)")


def prose(text: str) -> list[Node]:
    """Return a sentence with what stands in backticks as code, and keys beside names in small letters."""
    return [el("code", one) if odd % 2 else named(one) for odd, one in enumerate(text.split("`"))]


def hint(text: str) -> Element:
    """Say what an empty page, or a part of it, waits for; commands stand in backticks."""
    return el("p", prose(text), class_="empty")


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Node]], *, empty: str) -> Element:
    """Draw a table that scrolls by itself on a small screen; the first cell of a row names the row."""
    if not rows:
        return el("section", el("h2", caption), hint(empty), class_="nothing") if empty else el("div")
    return el(
        "div",
        el(
            "table",
            el("caption", caption),
            el("thead", el("tr", [el("th", one, scope="col") for one in heads])),
            el("tbody", [
                el("tr", el("th", row[0], scope="row"), [el("td", one) for one in row[1:]]) for row in rows
            ]),
        ),
        class_="scroll", tabindex="0", role="region", aria_label=caption,
    )  # fmt: skip


def facts(pairs: Sequence[tuple[str, Node | None]]) -> Element:
    """Draw names and values; those without a value are left out."""
    shown = [(name, value) for name, value in pairs if value is not None and value != ""]
    return el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in shown])


def field_of(
    label: str, name: str, value: str, among: Sequence[Sequence[str]] = (), **attributes: object
) -> Element:
    """Draw a labelled field of a form, with suggestions: texts, and what each is."""
    offered = f"among-{name}" if among else None
    field = el("input", name=name, value=value, autocomplete="off", list=offered, **attributes)
    options = [el("option", what, value=text) for text, what in among]
    return el("label", label, field, el("datalist", options, id=offered) if among else None)


def choice(label: str, name: str, value: str, options: Sequence[str]) -> Element:
    """Draw a labelled list to choose from."""
    shown = [el("option", one or "any", value=one, selected=one == value) for one in options]
    return el("label", label, el("select", shown, name=name))


def named(label: str) -> Node:
    """Draw names, each with the beginning of its key in small letters."""
    parts = _KEY_BESIDE.split(label)
    return el("span", [el("small", f" {one}") if odd % 2 else one for odd, one in enumerate(parts)])


def bare(label: str) -> str:
    """Return names without the beginnings of their keys, for drawings and summaries that lead to them."""
    return _KEY_BESIDE.sub("", label)


def person(key: str, label: str) -> Element:
    """Link to what a principal was granted and has granted."""
    return el("a", named(label), href="/rights?" + urlencode({"person": key}), title=key)


def moment(text: str | None, *, digits: int = 16) -> Node:
    """Draw an instant to the minute; the whole of it is in the title."""
    if text is None:
        return "unbounded"
    return el("time", text[:digits].replace("T", " "), datetime=text, title=text)


def badge(state: str) -> Element:
    """Draw a state."""
    return el("span", state, class_=f"state {state.replace(' ', '-')}")
