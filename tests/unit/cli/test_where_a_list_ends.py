"""What is said where a list ends at another domain, and where a revoked certificate stays open."""

from __future__ import annotations

from maia.api.further_registers import ask_further
from maia.api.responses import OpenAnswer, RevokedAnswer
from maia.cli.domain.calls import revoked_lines, shown_end
from support.policy import MET, PITO, SMITH


def test_it_says_how_a_register_is_asked_whose_server_is_not_known():
    asked = ask_further([PITO.principal, MET.principal], {PITO.principal: "nowhere"}, SMITH, (), lambda _: ())
    said = {one.at: shown_end(one).lines[0] for one in asked}
    assert "not asked: where its server is, `--ask NAME@HOST:PORT` says" in said[MET.principal]
    assert "it was asked, and does not tell us: " in said[PITO.principal]
    assert "not asked" not in said[PITO.principal]


def test_what_stays_open_is_not_said_to_be_refused_everywhere():
    def last(*open_ones: OpenAnswer) -> str:
        told = RevokedAnswer(
            ids=["a", "b"], memberships=[], statement=None, is_silent=False, still_open=[*open_ones],
            closes_at="2026-11-19T20:08:05Z",
        )  # fmt: skip
        return revoked_lines(told)[-1]

    assert last().endswith("then a verifier that received nothing refuses it too")
    assert last(OpenAnswer("a", None)).endswith(
        "then a verifier that received nothing refuses the others too"
    )
