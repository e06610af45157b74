"""How do the pages of `docs/` become a site? Sphinx reads this file; `make docs` runs it.

`docs/README.md` is the index, for readers of the repository and of the site: each
of its headings becomes a group of the navigation, with the pages that are linked below it. The
index of a folder does the same for the folder. A page that no index names is listed last.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
INDEX = "README"
LINK = re.compile(r"\]\(([a-z][\w./-]*)\.md\)")
API = "`site/api/index.html`"

project = "Maia"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = INDEX
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure", "myst.header"]  # languages of our own, in fences
html_theme = "alabaster"
html_theme_options = {
    "page_width": "1200px",
    "sidebar_width": "280px",
    "fixed_sidebar": True,
    "font_family": "system-ui, Helvetica, Arial, sans-serif",
    "head_font_family": "system-ui, Helvetica, Arial, sans-serif",
    "font_size": "15px",
}
html_title = "Maia"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False


def listed(index: Path, known: set[str]) -> list[tuple[str, list[str]]]:
    """Return the groups of an index: the heading of each, and its pages that no other group has."""
    groups: list[tuple[str, list[str]]] = []
    for section in re.split(r"^## ", index.read_text(encoding="utf-8"), flags=re.M):
        names: list[str] = []
        for name in LINK.findall(section):
            page = (index.parent / name).relative_to(DOCS).as_posix()
            if page not in known and (DOCS / f"{page}.md").exists():
                known.add(page)
                names.append(page)
        groups.append((section.partition("\n")[0].strip("# "), names))
    return groups


def navigation() -> dict[str, str]:
    """Return what is added to the end of each index."""
    found, known = {}, {INDEX}
    for index in sorted(DOCS.rglob(f"{INDEX}.md"), key=lambda path: len(path.parts)):
        groups = listed(index, known)
        found[index.relative_to(DOCS).with_suffix("").as_posix()] = groups
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    found[INDEX].append(("More", sorted(pages - known)))
    return {
        name: "".join(_toctree(caption, pages) for caption, pages in groups if pages)
        for name, groups in found.items()
    }


def _toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(
        ["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *(f"/{one}" for one in pages), "```\n"]
    )


def add_navigation(app: Any, page: str, source: list[str]) -> None:
    """Add the navigation to an index, and the way to the API reference to the page that names it."""
    source[0] += app.config.maia_navigation.get(page, "")
    if page == "reference/api":
        source[0] = source[0].replace(API, '<a href="../api/maia.html">API reference</a>')


def setup(app: Any) -> None:
    """Register both with Sphinx."""
    app.add_config_value("maia_navigation", navigation(), "env")
    app.connect("source-read", add_navigation)
