"""How is what a domain answers shown: in lines for people, in named fields for programs?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maia.cli.domain_calls import shown_call
from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.responses import MembershipAnswer, RevokedAnswer
    from maia.events import Instant

__all__ = [
    "answer_revoked",
    "bound_word",
    "membership_line",
    "published_line",
    "record_of",
    "revoked_lines",
    "revoked_record",
]


def record_of(found: object) -> dict[str, object]:
    """Return an answer, or a part of one, as named fields."""
    import msgspec

    record = msgspec.to_builtins(found)
    assert isinstance(record, dict)  # noqa: S101 - a struct
    return record


def bound_word(bound: Instant | None) -> str:
    """Return one end of a period as it is stated."""
    return "unbounded" if bound is None else str(bound)


def membership_line(one: MembershipAnswer) -> str:
    """Return a membership of a role, in a line."""
    until = one.until or "unbounded"
    return f"{shown_call(one.role, one.arguments)} of {one.principal} until {until}  {one.id}"


# ------------------------------------------------------------ what was taken away


def answer_revoked(
    client: DomainClient, found: RevokedAnswer, *, as_json: bool, first: Sequence[str] = ()
) -> None:
    """Print what was revoked, and whether a broker has acted; `first` goes before."""
    lines = [*first, *revoked_lines(found), *published_line(client)]
    answer(lines, revoked_record(found, client), as_json=as_json)


def revoked_lines(found: RevokedAnswer) -> list[str]:
    """Return what was revoked, one line each."""
    lines = [f"fell         {membership_line(one)}" for one in found.memberships]
    lines += [f"revoked      {one}" for one in found.ids]
    lines += [
        f"still open   {one.id} demands no test: a verifier that gets no list of this domain accepts it "
        + ("for ever" if one.until is None else f"until {one.until}")
        for one in found.still_open
    ]
    if found.closes_at is not None and len(found.ids) > len(found.still_open):
        lines.append(f"at latest    {found.closes_at}: then a verifier that received nothing refuses it too")
    if found.is_silent:
        lines.append("warning      the list is full: every right goes stale when the present list ends")
    return lines or ["nothing      rested on it"]


def revoked_record(found: RevokedAnswer, client: DomainClient) -> dict[str, object]:
    """Return what was revoked as named fields."""
    return {
        "revoked": list(found.ids),
        "memberships": [record_of(one) for one in found.memberships],
        "published": client.last.is_published,
        "is_silent": found.is_silent,
        "still_open": [record_of(one) for one in found.still_open],
        "closes_at": found.closes_at,
    }


def published_line(client: DomainClient) -> list[str]:
    """Return whether a broker has acted on the revocation."""
    match client.last.is_published:
        case True:
            return ["published    the broker has acted on it"]
        case False:
            return ["published    no: no broker has accepted it yet; verifiers learn it with the next list"]
        case _:
            return []
