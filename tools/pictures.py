"""What do the pictures of the documents show? This draws them, as SVG, from the descriptions below.

A picture is a function that puts boxes, arrows and words on a canvas. The same description gives the same
bytes, so `check_repo.py` sees when a file is out of date.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
INK, FAINT, PAPER = "#1f2933", "#7b8794", "#ffffff"
BLUE, GREEN, AMBER, RED, GREY = "#dbeafe", "#d8f3dc", "#fdf0d5", "#fde2e4", "#eef1f4"
LINE = 18
WIDE = 7.1
"""How wide a letter is, about, at the size of the text."""


class Canvas:
    """A picture under way."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """Begin with a white sheet, which is readable on dark pages, too."""
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, text: str = "", fill: str = GREY) -> None:
        """Draw a box with lines of text in its middle."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{INK}"/>'
        )
        lines = text.split("\n") if text else []
        top = y + height / 2 - LINE * (len(lines) - 1) / 2 + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + number * LINE, line, is_bold=number == 0 and len(lines) > 1)

    def region(self, x: int, y: int, width: int, height: int, label: str) -> None:
        """Draw the border of an organisation, with its name above."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="14" fill="none"'
            f' stroke="{FAINT}" stroke-dasharray="6 5"/>'
        )
        self.text(x + 14, y + 22, label, anchor="start", is_bold=True, colour=FAINT)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "middle",
        is_bold: bool = False,
        colour: str = INK,
    ) -> None:
        """Write one line of text."""
        weight = ' font-weight="600"' if is_bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(words)}</text>'
        )

    def arrow(
        self, x1: int, y1: int, x2: int, y2: int, label: str = "", *, lift: int = 8, is_dashed: bool = False
    ) -> None:
        """Draw an arrow, with words above its middle."""
        dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" stroke-width="1.6"{dashes}'
            ' marker-end="url(#head)"/>'
        )
        if label:
            x, y = (x1 + x2) / 2, (y1 + y2) / 2 - lift
            wide = len(label) * WIDE + 8
            self.parts.append(
                f'<rect x="{x - wide / 2:g}" y="{y - 13:g}" width="{wide:g}" height="18" fill="{PAPER}"/>'
            )
            self.text(x, y, label)

    def svg(self) -> str:
        """Return the file."""
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-size="13"'
            ' font-family="system-ui, Helvetica, Arial, sans-serif">',
            f"<title>{escape(self.title)}</title>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
            f' orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>',
            f'<rect width="{self.width}" height="{self.height}" rx="12" fill="{PAPER}"/>',
            *self.parts,
            "</svg>\n",
        ])  # fmt: skip


def overview() -> Canvas:
    """One event from a hospital to an institute, as each of them sees it."""
    to = Canvas(860, 330, "A hospital's event as the hospital publishes it and as the institute sees it")
    to.region(20, 20, 380, 290, "hospital")
    to.region(460, 20, 380, 290, "institute")
    to.box(40, 65, 150, 96, "lab publishes\npatient P-17\nward 3\nvalue 142", BLUE)
    to.box(245, 82, 130, 62, "broker\nseals, records", GREY)
    to.box(140, 215, 235, 70, "domain server\nissues and revokes rights,\nhands out keys", AMBER)
    to.box(485, 82, 130, 62, "broker\nopens, screens", GREY)
    to.box(670, 52, 150, 96, "dashboard sees\npatient –\nward 3\nvalue 142", GREEN)
    to.box(670, 205, 150, 88, "Spark table\npatient –\nthe same rights", GREEN)
    to.box(485, 215, 130, 62, "event log\nstill sealed", GREY)
    to.arrow(190, 113, 245, 113)
    to.arrow(375, 113, 485, 113, "ciphertext")
    to.arrow(615, 113, 670, 108)
    to.arrow(550, 144, 550, 215)
    to.arrow(615, 247, 670, 247)
    to.arrow(310, 215, 310, 144, is_dashed=True)
    to.arrow(375, 232, 485, 138, "grant: ward, value", lift=0, is_dashed=True)
    return to


def chain() -> Canvas:
    """How a right gets narrower from hand to hand."""
    to = Canvas(860, 230, "A chain of certificates, each of which can only narrow the one before")
    boxes = (
        ("hospital\nowns LabResult", AMBER),
        ("institute\nmay pass it on", BLUE),
        ("dashboard\nmay not pass it on", BLUE),
        ("its View\nward, value\nward 3\nuntil the earlier end", GREEN),
    )
    for number, (text, fill) in enumerate(boxes):
        to.box(20 + number * 220, 60, 160, 96, text, fill)
    for number, label in enumerate(("signs", "signs", "decide")):
        to.arrow(180 + number * 220, 108, 240 + number * 220, 108, label, lift=12)
    to.text(210, 185, "only ward and value")
    to.text(210, 203, "wards 3 and 4; 90 days")
    to.text(430, 185, "only ward 3; 30 days")
    to.text(650, 185, "what all of them")
    to.text(650, 203, "allow together")
    to.text(
        430,
        35,
        "each certificate names an issuer, a subject, actions, attributes, a filter and an end",
        colour=FAINT,
    )
    return to


def decision() -> Canvas:
    """One decision, applied in four places."""
    to = Canvas(860, 270, "Certificates, roles, facts and bounds end in one View, which four executors apply")
    for number, text in enumerate(
        ("certificates", "roles of a domain", "facts, such as on duty", "bounds of a broker")
    ):
        to.box(20, 20 + number * 60, 190, 44, text, BLUE)
        to.arrow(210, 42 + number * 60, 290, 132)
    to.box(290, 100, 130, 64, "decide\nat one moment", AMBER)
    to.arrow(420, 132, 480, 132)
    to.box(480, 82, 150, 100, "View\nwhich events\nwhich attributes\nuntil when", GREEN)
    for number, text in enumerate(
        ("broker: streams", "Spark: tables", "PostgreSQL: views", "Arrow: recorded files")
    ):
        to.arrow(630, 132, 690, 42 + number * 60)
        to.box(690, 20 + number * 60, 150, 44, text, GREY)
    return to


def network() -> Canvas:
    """How an event travels between brokers of several organisations."""
    to = Canvas(860, 390, "Brokers of four organisations; a sealed event passes one that cannot read it")
    to.text(430, 26, "interests travel the other way, with the certificates that prove them", colour=FAINT)
    to.region(20, 45, 240, 150, "cameras")
    to.box(40, 80, 90, 40, "camera", BLUE)
    to.box(145, 137, 95, 40, "broker", GREY)
    to.region(330, 45, 200, 150, "carrier")
    to.box(375, 95, 110, 62, "broker\nhas no keys", RED)
    to.region(610, 45, 230, 140, "police")
    to.box(630, 100, 80, 40, "broker", GREY)
    to.box(745, 100, 80, 40, "detective", GREEN)
    to.region(610, 225, 230, 145, "billing")
    to.box(630, 285, 80, 40, "broker", GREY)
    to.box(745, 285, 80, 40, "office", GREEN)
    to.region(20, 225, 240, 145, "owner of the type")
    to.box(60, 270, 160, 70, "domain server\nkeys, lists", AMBER)
    to.arrow(115, 120, 155, 137)
    to.arrow(240, 155, 375, 130, "sealed")
    to.arrow(485, 120, 630, 120, "sealed")
    to.arrow(485, 145, 630, 290, "sealed", lift=0)
    to.arrow(710, 120, 745, 120)
    to.arrow(710, 305, 745, 305)
    to.arrow(185, 270, 192, 177, "keys", lift=-4, is_dashed=True)
    to.arrow(220, 315, 630, 315, "keys of what billing may see", is_dashed=True)
    return to


def revocation() -> Canvas:
    """What happens after `maia revoke`."""
    to = Canvas(860, 250, "A revocation travels as an event, ends streams, and changes keys")
    to.box(20, 90, 150, 64, "issuer revokes\nat its domain", AMBER)
    to.box(250, 90, 150, 64, "signed list\nnumber 118", BLUE)
    to.arrow(170, 122, 250, 122, "signs", lift=10)
    rows = (
        (20, "broker of the reader\nends its stream", GREY),
        (95, "brokers on the way\nforget the interest", GREY),
        (170, "key server\nnew keys for the others", GREY),
    )
    for y, text, fill in rows:
        to.arrow(400, 122, 520, y + 30)
        to.box(520, y, 190, 60, text, fill)
    to.box(740, 20, 100, 60, "reader\nrefused", RED)
    to.arrow(710, 50, 740, 50)
    to.text(325, 200, "published on a stream of its own,")
    to.text(325, 218, "and fetched where it does not arrive")
    return to


PICTURES: tuple[Callable[[], Canvas], ...] = (overview, chain, decision, network, revocation)


def pages() -> dict[Path, str]:
    """Return every picture by its file."""
    return {FOLDER / f"{draw.__name__}.svg": draw().svg() for draw in PICTURES}
