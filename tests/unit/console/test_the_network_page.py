"""The page about the network calls brokers of partners by what the reader calls the partner."""

from __future__ import annotations

from pathlib import Path

from maia.console.network import BrokerRow
from maia.console.pages.network import _broker
from maia.console.rights import ShownNames
from maia.credentials import SigningKey
from maia.profile.address_book import OWN, AddressBook, KnownName

OURS, ROTTERDAM, ITS_BROKER, KNOWN, STRANGER = (
    SigningKey.from_seed(bytes([number]) * 32).principal for number in range(5)
)
NAMES = {ROTTERDAM: "rotterdam", KNOWN: "quay"}


def shown_peers(*links: dict[str, object]) -> list[str]:
    """Return what the page calls the peers of a broker with these links."""
    book = AddressBook({str(key): KnownName(key, name, OWN, Path(name)) for key, name in NAMES.items()})
    counted = dict.fromkeys(("clients", "peers", "subscriptions", "advertisements", "certificates"), 0)
    status = {
        "principal": str(OURS), "address": "127.0.0.1:7400", "network": "ports", **counted,
        "links": [
            {"link": 1, "role": "broker", "subscriptions": 0, "advertisements": 0, "open_s": 1, **one}
            for one in links
        ],
    }  # fmt: skip
    page = _broker(BrokerRow(Path("data"), status, None, 0.0), ShownNames(book, {}))
    return [one["name"] for one in page["links"]]


def test_a_partners_broker_is_called_by_the_partner_and_no_other_is() -> None:
    assert shown_peers(
        {"peer": str(ITS_BROKER), "of": [str(ROTTERDAM)]},
        {"peer": str(KNOWN), "of": [str(ROTTERDAM)]},
        {"peer": str(STRANGER), "of": [str(STRANGER)]},
        {"peer": str(STRANGER)},
    ) == [
        f"broker of rotterdam ({str(ROTTERDAM)[:16]}…)",
        f"quay ({str(KNOWN)[:16]}…)",
        f"{str(STRANGER)[:16]}…",
        f"{str(STRANGER)[:16]}…",
    ]
