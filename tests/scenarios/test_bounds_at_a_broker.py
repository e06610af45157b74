"""E4 and E5, Miklós 3.3 to 3.5: a broker's file sets bounds on what its clients may announce and ask for.

Every certificate here grants everything. The bounds alone take away, and what
a strict bound lets a subscriber ask for is all that it is shown.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from maia.credentials import SigningKey
from maia.testing import wait_until
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import Answer, maia, running_maia

ATTRIBUTES = ("message:string", "price:int", "color:string", "weather:string", "temperature:int")
NEW_PRODUCT = 'message == "new_product"'
CHEAP = f"{NEW_PRODUCT} and price < 100"
PEOPLE = ("shop", "strict-shop", "agency", "modest", "screened", "free")


def bound(action: str, kind: str, words: str, holder: str) -> str:
    return f"""
[[bound]]
{holder}
action = "{action}"
bound = "{kind}"
definition = "news.type"
filter = '{words}'
"""


OTHERS = [str(SigningKey.from_seed(bytes([number]) * 32).principal) for number in range(1, 101)]
BOUNDS = "".join([
    bound("publish", "upper", NEW_PRODUCT, 'principal = "shop.pub"'),
    bound("publish", "strict lower", CHEAP, 'principal = ["strict-shop.pub"]'),
    bound("subscribe", "upper", NEW_PRODUCT, 'certificate = "agency-certs/subscribe.cert"'),
    bound("subscribe", "lower", "exists(message)", 'principal = "modest.pub"'),
    bound("subscribe", "strict upper", "exists(message) and exists(price)", 'principal = "screened.pub"'),
    bound("subscribe", "upper", CHEAP, f"principal = {OTHERS}"),
])  # fmt: skip


def done(home: Path, *words: object) -> Answer:
    answered = maia(*words, cwd=home)
    assert answered.returncode == 0, answered.stderr
    return answered


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with one type of news, as files, and bounds on who may say and hear what."""
    home = tmp_path_factory.mktemp("market")
    make_keys(home, "broker", *PEOPLE)
    lets_connect(home, "broker", *PEOPLE)
    words = [word for one in ATTRIBUTES for word in ("-a", one)]
    done(home, "type", "define", "-k", "pito.key", "--name", "News", *words, "-o", "news.type")
    for who in PEOPLE:
        issue(home, who, "publish" if who.endswith("shop") else "subscribe", "-d", "news.type")
    issue(home, "free", "publish", "-d", "news.type")
    (home / "bounds.toml").write_text(BOUNDS)
    (home / "broker.toml").write_text(config("broker", 'bounds = "bounds.toml"\n'))
    return home


@pytest.fixture(scope="module")
def address(market: Path) -> Iterator[str]:
    with running_maia("broker", "-c", "broker.toml", cwd=market):
        yield address_of(market)


def member(home: Path, who: str, address: str, *words: object) -> Answer:
    about = ("--network", NETWORK, "--coordinator", "pito.pub", "--credentials", f"{who}-certs")
    return maia(
        words[0], "-k", f"{who}.key", *about, "-d", "news.type", "--broker", address, "--wait", 60,
        *words[1:], cwd=home,
    )  # fmt: skip


def publishes(home: Path, who: str, address: str, where: str, **values: object) -> Answer:
    said = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    return member(home, who, address, "publish", "--filter", where, *said)


def subscribes(home: Path, who: str, address: str, where: str) -> Answer:
    return member(home, who, address, "subscribe", "--filter", where, "--for", 0.2)


def code_of(answered: Answer) -> str:
    assert answered.returncode != 0, answered.stdout
    return answered.stderr.rpartition("[")[2].partition("]")[0]


def test_an_upper_bound_on_a_publisher_limits_advertisements_and_events(market: Path, address: str) -> None:
    """3.3: products with any price, and no weather."""
    assert publishes(market, "shop", address, CHEAP, message="new_product", price=10).returncode == 0
    weather = publishes(market, "shop", address, "exists(weather)", weather="sunny", temperature=27)
    assert code_of(weather) == "POLICY-ADVERTISEMENT-OUT-OF-BOUNDS"
    dear = publishes(market, "shop", address, NEW_PRODUCT, message="old_product", price=10)
    assert code_of(dear) == "REFUSED-ROWS"


def test_a_strict_lower_bound_on_a_publisher_leaves_no_attribute_unspoken(market: Path, address: str) -> None:
    who = "strict-shop"
    assert publishes(market, who, address, CHEAP, message="new_product", price=10).returncode == 0
    other = publishes(market, who, address, f"{CHEAP} and exists(color)", message="new_product", price=10)
    assert code_of(other) == "POLICY-ADVERTISEMENT-OUT-OF-BOUNDS"
    coloured = publishes(market, who, address, CHEAP, message="new_product", price=10, color="red")
    assert code_of(coloured) == "REFUSED-ROWS"


def test_an_upper_bound_on_a_certificate_refuses_wider_filters(market: Path, address: str) -> None:
    """3.4: a client that relies on this certificate receives of products alone."""
    assert subscribes(market, "agency", address, CHEAP).returncode == 0
    assert (
        code_of(subscribes(market, "agency", address, "temperature > 25")) == "POLICY-SUBSCRIPTION-TOO-WIDE"
    )


def test_a_lower_bound_on_a_subscriber_refuses_narrower_filters(market: Path, address: str) -> None:
    assert subscribes(market, "modest", address, NEW_PRODUCT).returncode == 0
    assert code_of(subscribes(market, "modest", address, CHEAP)) == "POLICY-SUBSCRIPTION-TOO-NARROW"


def test_a_strict_bound_shows_what_the_filter_names_and_nothing_else(market: Path, address: str) -> None:
    """3.5, his example: the colour is screened out, for this subscriber and for no other."""
    wider = subscribes(market, "screened", address, f"{CHEAP} and exists(color)")
    assert code_of(wider) == "POLICY-SUBSCRIPTION-TOO-WIDE"
    seen = {}
    for who in ("screened", "free"):
        home = market / who
        home.mkdir()
        about = ("--network", NETWORK, "--coordinator", "../pito.pub", "--credentials", f"../{who}-certs")
        wanted = ("-d", "../news.type", "--broker", address, "--filter", CHEAP, "--count", 1, "--for", 60)
        words = ("subscribe", "-k", f"../{who}.key", *about, *wanted)
        with running_maia(*words, cwd=home) as reader:
            wait_until(lambda home=home: "subscribed to" in (home / "err.log").read_text())
            sent = publishes(
                market, "free", address, "true", message="new_product", price=23, color="red", weather="wet"
            )
            assert sent.returncode == 0, sent.stderr
            assert reader.wait(180) == 0
        seen[who] = {
            name: value for name, value in json.loads((home / "out.log").read_text()).items() if value
        }
    assert seen["screened"] == {"message": "new_product", "price": 23}
    assert seen["free"] == seen["screened"] | {"color": "red", "weather": "wet"}


def test_bounds_on_a_hundred_others_are_no_burden_to_a_client(market: Path, address: str) -> None:
    """A decision checks 64 bounds at most; a file may set them for many more clients."""
    assert subscribes(market, "free", address, "true").returncode == 0


def test_explain_reads_the_same_file(market: Path) -> None:
    words = ("explain", "--principal", "modest.pub", "--action", "subscribe", "-d", "news.type")
    narrow = ("--filter", CHEAP, "--credentials", "modest-certs")
    assert maia(*words, *narrow, cwd=market).returncode == 0
    refused = maia(*words, *narrow, "--bounds", "bounds.toml", cwd=market)
    assert (refused.returncode, "POLICY-SUBSCRIPTION-TOO-NARROW" in refused.stdout) == (1, True)


WRONG = [
    (
        BOUNDS.replace('principal = "shop.pub"\n', ""),
        "`bounds.toml` line 2: `bound` number 1",
        "limits no principal",
    ),
    (BOUNDS.replace("exists(message)'", "exists(mesage)'"), "`bounds.toml` line 23", "INPUT-PREDICATE-NAME"),
    (BOUNDS.replace('"strict lower"', '"lowest"'), "`bounds.toml` line 12", "must be one of upper, lower"),
    (BOUNDS.replace("[[bound]]", "[[bond]]"), "`bounds.toml` line 37", "did you mean `bound`?"),
]


@pytest.mark.parametrize(("text", "place", "why"), WRONG, ids=["no principal", "attribute", "kind", "table"])
def test_a_bound_that_makes_no_sense_is_found_before_a_port_opens(
    market: Path, tmp_path: Path, text: str, place: str, why: str
) -> None:
    subprocess.run(["cp", "-r", f"{market}/.", str(tmp_path)], check=True)
    (tmp_path / "bounds.toml").write_text(text)
    checked = maia("broker", "-c", "broker.toml", "--check", cwd=tmp_path)
    assert checked.returncode == 2
    assert place in checked.stderr
    assert why in checked.stderr
