"""Tables 4.7 and 4.8, figure 4.5 of the dissertation: what do signed types cost a broker, with which caches?

The paper's cases: a chain of five certificates is reduced, beside the check of
one RSA signature of 1024 bits (benchmark 3); a subscription is processed at the
local broker with a plain and with a signed type (benchmark 1); and the same for
chains of 1 to 10 certificates with the caches off. A right to install types is not asked for, as
in the paper.
"""

from __future__ import annotations

from typing import Final

from b01_subscribe_signed_type import NOW, PlainTypes, definition, processing
from maia.credentials import NetworkName
from maia.credentials.chains.chain import VerificationCache
from maia.events import Instant
from maia.types import SignedDefinition, VerifiedType, VerifiedTypeCache, verify_definition
from paper_figures import Found, PaperFigure, in_turns, prose, short, table, verdict
from performance_page import Kept
from plots import save, subplots

PAPER_US: Final = {"reduction": 5.533, "check": 291.926, "plain": 6.77053, "signed": 7.10021}
"""Tables 4.7 and 4.8, on a Pentium 4."""
PLAIN_4_5_US: Final = (7.422, 1.783)
"""What the text beside figure 4.5 prints for a plain subscription, and its standard deviation."""
FASTER: Final = 50
"""So many times faster than a check is a reduction, says the paper."""
NEITHER, CERTIFICATES, TYPES, BOTH, PLAIN = (
    "no cache", "certificates cached", "types cached", "both cached", "plain type",
)  # fmt: skip


_FLAT: Final = 0.05
"""A length does not matter if it changes the cost by less than this part."""


class _CheckedTypes:
    """Where a broker looks for a type, with one cache, both or none."""

    def __init__(self, *, certificates: bool, types: bool) -> None:
        self._certificates = VerificationCache() if certificates else None
        self._types = VerifiedTypeCache(certificates=self._certificates) if types else None

    def find(self, signed: SignedDefinition, at: Instant, _network: NetworkName) -> VerifiedType:
        if self._types is not None and (known := self._types.find(signed, at)) is not None:
            return known  # as a broker asks, and as benchmark 1 does
        cache = self._types if self._types is not None else VerifiedTypeCache(certificates=self._certificates)
        return verify_definition(signed, at=at, cache=cache)


EQUAL, NARROWING = "that pass one right on, cold", "of which each narrows something, cold"
AGAINST_RSA = f"{EQUAL}, against RSA of 1024 bits"


def read_table_4_7(kept: Kept) -> Found:
    """Return what benchmark 3 has found: chains of equal and of narrowing certificates, and both checks."""
    equal, narrowing, rsa = (kept.case(3, f"five {case}") for case in (EQUAL, NARROWING, AGAINST_RSA))
    if equal is None or narrowing is None:
        raise LookupError("benchmark 3 is not measured")
    found = {"reduction": equal["ours_us"], "narrowing": narrowing["ours_us"], "ed25519": equal["peer_us"]}
    times = {"ed25519": equal["ratio"], "narrowing": narrowing["ratio"]}
    if rsa is not None:
        found["check"], times["rsa"] = rsa["peer_us"], rsa["ratio"]
    return {**found, "times": times}


def read_table_4_8(kept: Kept) -> Found:
    """Return the times of benchmark 1, for the chain of five."""
    row = kept.row(1, "chain of 5")
    return {"plain": row["peer_us"], "signed": row["ours_us"], "times": row["ratio"]}


def describe_table_4_7(found: Found) -> list[str]:
    """Return both rows of the table, chains that narrow beside equal ones, and Ed25519, which we use."""
    times, check = found["times"], found.get("check")
    narrowing_rsa = check / found["narrowing"] if check else "–"
    rows = [
        ["5-tuple reduction, five certificates of one right", PAPER_US["reduction"], found["reduction"]],
        ["the same, each of them narrows something", "–", found["narrowing"]],
        ["RSA signature verification, 1024 bits", PAPER_US["check"], check or "–"],
        ["Ed25519 signature verification", "–", found["ed25519"]],
        ["RSA / reduction", PAPER_US["check"] / PAPER_US["reduction"], times.get("rsa", "–")],
        ["RSA / reduction that narrows", "–", narrowing_rsa],
        ["Ed25519 / reduction", "–", times["ed25519"]],
        ["Ed25519 / reduction that narrows", "–", times["narrowing"]],
    ]
    of_rsa = [
        "RSA of 1024 bits, which protects nothing today, is in the benchmark since, and not measured yet."
    ]
    if check:
        of_rsa = [
            verdict(times["rsa"] > FASTER, "For RSA of 1024 bits, which protects nothing today, it"),
            f"{short(times['rsa'])} times, and {short(check / found['narrowing'])} where each narrows:",
            f"the check has become {short(PAPER_US['check'] / check)} times faster and the reduction",
            f"{short(PAPER_US['reduction'] / found['reduction'])} times.",
        ]
    of_one = f"The claim, over {FASTER} times,"
    return [
        *table(["µs", "paper", "ours"], rows),
        *prose(
            "The paper does not say what its certificates hold.",
            verdict(times["ed25519"] > FASTER, of_one, " for chains that pass one right on"),
            f"{short(times['ed25519'])} times a check of the signatures that we use.",
            verdict(times["narrowing"] > FASTER, "Where each certificate narrows something, it"),
            f"{short(times['narrowing'])} times.",
            *of_rsa,
        ),
    ]


def describe_table_4_8(found: Found) -> list[str]:
    """Return both rows of the table."""
    printed, ours = PAPER_US["signed"] / PAPER_US["plain"], found["times"]
    rows = [
        ["plain types", PAPER_US["plain"], found["plain"]],
        ["signed types", PAPER_US["signed"], found["signed"]],
        ["signed / plain", printed, ours],
    ]
    return [
        *table(["µs", "paper", "ours"], rows),
        *prose(
            "The paper says that with the type cache signed and plain types perform equally well, and prints",
            f"a difference of {100 * (printed - 1):.1f} %. {verdict(ours <= printed, where=' within that')}",
            f"{100 * (ours - 1):.1f} %. Ours also decides on the subscriber's right, which is most of the",
            "time of both rows.",
        ),
    ]


def measure_chains(quick: bool) -> Found:
    """Time a subscription with every choice of caches, for chains of 1 to 10."""
    found: Found = {"chains": list((1, 3) if quick else range(1, 11)), "us": {}}
    for length in found["chains"]:
        signed = definition(length)
        ways = {
            NEITHER: processing(signed, _CheckedTypes(certificates=False, types=False)),
            CERTIFICATES: processing(signed, _CheckedTypes(certificates=True, types=False)),
            TYPES: processing(signed, _CheckedTypes(certificates=False, types=True)),
            BOTH: processing(signed, _CheckedTypes(certificates=True, types=True)),
            PLAIN: processing(signed, PlainTypes(verify_definition(signed, at=NOW))),
        }
        rounds, slice_s = (1, 0.001) if quick else (5, 0.01)
        for way, us in in_turns(ways, rounds=rounds, slice_s=slice_s).items():
            found["us"].setdefault(way, []).append(round(us, 2))
    return found


def _printed(length: int, *, cached: bool) -> float:
    """Return what the paper's numbers say that a subscription takes; of its lines figure 4.5 prints none."""
    return PLAIN_4_5_US[0] + PAPER_US["check"] * (1 if cached else length + 1)


def draw_chains(found: Found) -> None:
    """Draw time by length of the chain, as figure 4.5 does, on a logarithmic scale."""
    sheet, axes = subplots(size=(7, 4))
    along = found["chains"]
    for way, times in found["us"].items():
        axes.plot(along, times, marker="o", markersize=3, label=way)
    for cached, label in ((False, "paper, no cache"), (True, "paper, certificates cached")):
        marks = "kx" if not cached else "k+"
        axes.plot(along, [_printed(one, cached=cached) for one in along], marks, label=label)
    axes.axhline(PLAIN_4_5_US[0], color="black", linewidth=0.6, linestyle=":", label="paper, plain type")
    axes.set(yscale="log", xlabel="certificates in the chain", ylabel="µs for a subscription")
    axes.legend(fontsize=7, ncol=2)
    axes.set_title("Figure 4.5: a subscription by caches and length of the chain", fontsize=9)
    save(sheet, "figure-4-5")


def describe_chains(found: Found) -> list[str]:
    """Return first and last point of every line."""
    first, last = found["chains"][0], found["chains"][-1]
    at = {way: (times[0], times[-1]) for way, times in found["us"].items()}
    rows: list[list[object]] = [[way, *pair, pair[1] / pair[0]] for way, pair in at.items()]
    for cached, label in ((False, "paper, no cache"), (True, "paper, certificates cached")):
        pair = (_printed(first, cached=cached), _printed(last, cached=cached))
        rows.append([label, *pair, pair[1] / pair[0]])
    rows.append(["paper, plain type", *PLAIN_4_5_US[:1] * 2, 1.0])
    saved = at[NEITHER][1] / at[CERTIFICATES][1]
    grows, flat = (at[way][1] / at[way][0] for way in (CERTIFICATES, TYPES))
    return [
        *table(["µs for a subscription", f"chain of {first}", f"chain of {last}", "times"], rows),
        *prose(
            f"The paper prints one number here, {PLAIN_4_5_US[0]} µs (σ {PLAIN_4_5_US[1]}) for a plain",
            "type: the paper's other rows are that and as many of its RSA checks as each case needs.",
            f"{verdict(saved > 1)} with cached certificates a subscription with a",
            f"chain of {last} costs {short(saved)} times less than without.",
            f"{verdict(grows <= 1 + _FLAT, 'That the length then does not matter')} it is {short(grows)}",
            "times the cost of the shortest. What is left is one signature, reading the definition, and the",
            "search for its chain.",
            f"{verdict(flat <= 1 + _FLAT, 'With cached types, as every broker has them, it')}",
            f"{short(flat)} times.",
        ),
    ]


SECTION_4_5 = "MAIA 4.5, a Pentium 4 of 3.2 GHz"
FIGURES = (
    PaperFigure("table-4-7", "Table 4.7: reduction beside signatures", SECTION_4_5, None, None,
                describe_table_4_7, read_table_4_7, (3,)),
    PaperFigure("table-4-8", "Table 4.8: plain and signed types", SECTION_4_5, None, None,
                describe_table_4_8, read_table_4_8, (1,)),
    PaperFigure("figure-4-5", "Figure 4.5: chains with and without caches", SECTION_4_5, measure_chains,
                draw_chains, describe_chains),
)  # fmt: skip
