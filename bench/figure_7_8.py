"""Figure 7.8 of the dissertation with our numbers: throughput by number of attributes.

Events in the clear, sealed as a whole, and sealed by attribute; one by one as
in the paper, and in frames of 256: what benchmarks 5 and 6 measure, the work of
publisher, both brokers and subscriber on one core. The paper prints two
numbers, both for attribute level and single events: 46 % of the plaintext
throughput with one attribute, and 11.7 % with ten.
"""

from __future__ import annotations

from paper_figures import Found, PaperFigure, prose, short, table, verdict
from performance_page import Kept
from plots import save, subplots

PAPER = {1: 0.46, 10: 0.117}
CLEAR, SIGNED = "plaintext", "attribute level, signed"
WAYS = ("event level", "attribute level", SIGNED)
SINGLE, FRAMES = "single events", "frames of 256"
CASES = {
    (SINGLE, "event level"): (6, "event level"),
    (SINGLE, "attribute level"): (6, "attribute level"),
    (SINGLE, SIGNED): (6, "attribute level, a signature for the frames that arrive together"),
    (FRAMES, "event level"): (5, "event level"),
    (FRAMES, "attribute level"): (5, "attribute level"),
    (FRAMES, SIGNED): (5, "attribute level, 8 frames signed together"),
}
"""What a way is called in which benchmark."""
ATTRIBUTES = (1, 5, 10, 25)


def read(kept: Kept) -> Found:
    """Return what is left of the plaintext throughput, and events a second, by shape, way and attributes."""
    found: Found = {}
    for (shape, way), (bench, called) in CASES.items():
        points = found.setdefault(shape, {}).setdefault(way, {})
        for number in ATTRIBUTES:
            case = f"{number} attribute{'s' if number > 1 else ''}, {shape}, {called}"
            row = kept.case(bench, case)
            if row is not None:  # frames are not measured at every number
                points[number] = {"left": row["ratio"], "rate": 1e6 / row["ours_us"], "us": row["peer_us"]}
    if not all(found[SINGLE].values()):
        raise LookupError("a line of figure 7.8 is not measured")
    return found


def draw(found: Found) -> None:
    """Draw throughput on the left and its share of the plaintext throughput on the right."""
    figure, rows = subplots(len(found), 2, size=(9, 7), sharex=True)
    for (shape, ways), (left, right) in zip(found.items(), rows, strict=True):
        clear = {number: 1000 / one["us"] for number, one in ways["attribute level"].items()}
        left.plot(list(clear), list(clear.values()), marker="o", markersize=3, label=CLEAR)
        right.plot(list(clear), [100.0] * len(clear), marker="o", markersize=3)
        for way, points in ways.items():
            rates = [one["rate"] / 1000 for one in points.values()]
            left.plot(list(points), rates, marker="o", markersize=3, label=way)
            right.plot(list(points), [100 * one["left"] for one in points.values()], marker="o", markersize=3)
        if shape == SINGLE:
            printed = [100 * share for share in PAPER.values()]
            right.plot(list(PAPER), printed, "kx", label="attribute level in the paper")
            for number, share in zip(PAPER, printed, strict=True):
                right.annotate(
                    f"{share:g} %", (number, share), (6, 4), textcoords="offset points", fontsize=8
                )
        left.set_title(f"{shape}: thousand events a second", fontsize=10)
        right.set_title(f"{shape}: share of plaintext, %", fontsize=10)
        left.set_yscale("log")
        right.set_ylim(0, 105)
    rows[0][0].legend(fontsize=8)
    rows[0][1].legend(fontsize=8)
    for axes in rows[-1]:
        axes.set_xlabel("attributes of 30 characters")
    figure.tight_layout()
    save(figure, "figure-7-8")


def describe(found: Found) -> list[str]:
    """Return the share of plaintext throughput that is left, at the paper's two points and at the end."""

    def share(shape: str, way: str, number: int) -> str:
        one = found[shape][way].get(number)
        return "–" if one is None else f"{100 * one['left']:.0f} %"

    rows: list[list[object]] = [
        [
            number,
            f"{100 * PAPER[number]:g} %" if number in PAPER else "–",
            *(share(shape, way, number) for shape in (SINGLE, FRAMES) for way in WAYS),
        ]
        for number in ATTRIBUTES
    ]
    one_left, ten_left = (found[SINGLE]["attribute level"][number]["left"] for number in (1, 10))
    head = ["attributes", "paper, attribute level", *WAYS, *(f"frames of 256, {way}" for way in WAYS)]
    return [
        *table(head, rows),
        *prose(
            "Share of the plaintext throughput that is left; the columns up to the fifth are single events,",
            "64 with one read. The paper's case is *attribute level*, which proves nothing of its publisher.",
            f"{verdict(ten_left < one_left < 1, 'Its claim, that ten attributes leave less than one,')}",
            f"{100 * one_left:.0f} % with one attribute, {100 * ten_left:.0f} % with ten, which is",
            f"{short(ten_left / PAPER[10])} times what is left in the paper: AES is in hardware, and one",
            "cipher serves all attributes that the same readers see.",
        ),
    ]


FIGURES = (
    PaperFigure("figure-7-8", "Figure 7.8: throughput by number of attributes", "MAIA 7.7.1", None, draw,
                describe, read, (5, 6)),
)  # fmt: skip
