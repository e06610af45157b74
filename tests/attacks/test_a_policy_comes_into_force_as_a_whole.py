"""A42: a policy that is missing, cut off, malformed or tampered with grants nothing and changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.domain.storage.tables import PolicyRow, TypeRow
from maia.roles import BadPolicy
from maia.testing.refusals import raises
from support.access_control import (
    MET,
    NUMBERPLATE,
    POLICY,
    SMITH,
    Station,
    check_consistent,
    court,
    met,
    order,
    told,
)

PLATE = "AE05 XYZ"


@pytest.fixture
def station() -> Station:
    """The Met, with a detective at work."""
    courts, made = court(), met()
    told(made, courts)
    made.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    return made


LINES = POLICY.strip().split("\n")
BROKEN = {
    "empty": "",
    "blank": "\n \n\t\n",
    "a remark": "# nothing here\n",
    "cut off": "\n".join(LINES[:-1]),
    "half": POLICY[: len(POLICY) // 2],
    "a typo": POLICY.replace("while detective", "whle detective"),
    "an unknown fact": POLICY.replace("while detective(holder)", "while dectective(holder)"),
    "another kind": POLICY.replace("np_tracker(plate: string)", "np_tracker(plate: int)"),
    "an unknown type": POLICY.replace("uk.gov.pito.Numberplate", "uk.gov.pito.Nmberplate"),
    "null bytes": "\x00" * 100,
    "binary": "".join(map(chr, range(1, 256))),
    "two ends": POLICY + "end\n",
    "deep": 'policy "x"\n' + "(" * 5000 + "\nend\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_policy_that_does_not_read_leaves_the_last_good_one_in_force(station: Station, name: str) -> None:
    """A42: keep the last good one, and everything that it gave."""
    before = station.policy(), station.audit_head(), station.register().rows
    with pytest.raises(BadPolicy):
        station.load_policy(BROKEN[name])
    assert (station.policy(), station.audit_head(), station.register().rows) == before
    assert len(station.login(SMITH.principal, []).issued) == 2
    check_consistent(station)


@pytest.mark.parametrize("cut", range(1, len(LINES)))
def test_a_policy_that_was_cut_off_at_any_line_is_refused(cut: int) -> None:
    """A42: half a policy is not a smaller policy."""
    made = Station(MET)
    made.register_type(NUMBERPLATE.signed)
    with pytest.raises(BadPolicy):
        made.load_policy("\n".join(LINES[:cut]))
    assert made.policy() is None


def test_without_any_policy_no_principal_gets_anything() -> None:
    """A42: deny all when there is none."""
    made = Station(MET)
    for ask in (
        lambda: made.login(SMITH.principal, []),
        lambda: made.activate(SMITH.principal, "np_tracker", None, []),
        lambda: made.would_be_able("np_tracker", [PLATE], made.now),
    ):
        with raises("REFUSED-NO-POLICY"):
            ask()


def test_a_stored_policy_that_was_tampered_with_grants_nothing_after_a_restart(station: Station) -> None:
    """A42: neither the altered text nor an older one comes into force."""
    station.load_policy(POLICY.replace("8 hours", "4 hours"))
    with station.store.transaction() as tables:
        row = tables.get(PolicyRow, 2)
        tables.put(replace(row, text=row.text.replace("while detective(holder)\n", "")))
    again = station.restarted()
    assert again.policy() is None
    with raises("REFUSED-NO-POLICY"):
        again.login(SMITH.principal, [])
    again.load_policy(POLICY)
    assert again.policy().version == 3
    assert len(again.login(SMITH.principal, []).issued) == 2


def test_a_policy_whose_types_are_gone_grants_nothing_after_a_restart(station: Station) -> None:
    """A42: what it was read with is part of it."""
    with station.store.transaction() as tables:
        tables.delete(TypeRow)
    assert station.restarted().policy() is None


def test_a_policy_that_is_too_long_is_refused() -> None:
    """A42: everything has a limit."""
    made = Station(MET, settings=AccessSettings(limits=AccessLimits(policy_bytes=100)))
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        made.load_policy(POLICY)
