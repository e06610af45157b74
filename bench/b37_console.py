"""How soon does a person see a network of 50 brokers and 2,000 certificates, and a number that changes?

A domain's server, a console and Chromium are real; the 50 brokers are status endpoints that answer
as brokers do. First paint is what the browser reports as its first contentful paint, from the click
on. An update is counted from the moment at which the last broker was asked to the moment at which the
number has changed on the page: how often the console asks (once a second) is not in it. The starts of
`import maia` and `maia --help` stand beside those of what people wait for elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import maia
from harness import Benchmark, Case, Figure, NotMeasured, at_most
from maia.credentials import (
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    SigningKey,
    TypePattern,
    certificate_to_text,
    issue,
)
from maia.credentials.names import NamePattern
from maia.keystore.key_files import load_signing_key
from maia.net.status_endpoint import StatusEndpoint, StatusSource, new_door, new_token
from maia.profile.profile import toml_text

DEPARTMENTS, LINKS = 40, 8
FIRST_PAINT, UPDATE = at_most(1.0), at_most(0.1)
START_S = 60.0


def cases(quick: bool) -> Iterator[Case]:
    """Yield paints, updates and starts."""
    looks, brokers, certificates = (1, 5, 100) if quick else (9, 50, 2000)
    chromium = os.environ.get("MAIA_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        yield NotMeasured("seconds to the first paint", "there is no Chromium here", FIRST_PAINT)
    else:
        yield from _looked_at(chromium, looks, brokers, certificates)
    yield from _starts(1 if quick else 25)


# ------------------------------------------------------------ what a person sees


def _looked_at(chromium: str, looks: int, how_many: int, certificates: int) -> Iterator[Case]:
    from playwright.sync_api import sync_playwright

    with (
        tempfile.TemporaryDirectory() as folder,
        _Brokers(Path(folder), how_many) as brokers,
        _console(Path(folder), brokers, certificates) as (url, link),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(link)
        page.get_by_role("button").click()
        page.wait_for_url("**/overview")
        for name in ("network", "rights"):
            paints = []
            for _ in range(looks + 1):
                page.goto("about:blank")
                page.goto(f"{url}/{name}")
                paints.append(page.evaluate(_PAINT) / 1000)
            all_of = how_many if name == "network" else certificates
            assert f"{all_of} of {all_of}" in page.inner_text("main")
            size = f"{how_many} brokers, {certificates:,} certificates"
            yield Figure(f"seconds to the first paint of *{name}*: {size}", paints[1:], FIRST_PAINT)
        page.goto(f"{url}/network")
        yield Figure(
            f"seconds from the brokers' answers to a number on the page, {how_many} brokers",
            [_update(page, brokers) for _ in range(looks)],
            UPDATE,
        )
        browser.close()


_PAINT = """() => new Promise((done) => {
  new PerformanceObserver((list) => {
    for (const one of list.getEntriesByName("first-contentful-paint")) done(one.startTime);
  }).observe({type: "paint", buffered: true});
})"""
_CHANGED = """() => new Promise((done) => {
  const place = document.querySelector("[data-live='total']"), before = place.textContent;
  new MutationObserver(() => {
    if (place.textContent !== before) done(Date.now());
  }).observe(place, {childList: true, characterData: true, subtree: true});
})"""


# Any: a page of Playwright, which is not imported where there is no browser.
def _update(page: Any, brokers: _Brokers) -> float:
    """Return how long after the brokers' last answers the page has changed."""
    threading.Timer(0.3, brokers.publish).start()
    changed_ms: float = page.evaluate(_CHANGED)
    asked = max(one for one in brokers.asked if one * 1000 <= changed_ms)
    return changed_ms / 1000 - asked


class _Brokers:
    """Status endpoints that answer as brokers do, in a thread."""

    def __init__(self, folder: Path, how_many: int) -> None:
        self.folders = [folder / f"broker-{number}" for number in range(how_many)]
        self.asked: list[float] = []
        self._published = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> _Brokers:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_S)
        return self

    def __exit__(self, *_problem: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)

    async def _start(self) -> None:
        for number, folder in enumerate(self.folders):
            folder.mkdir()
            token = new_token()
            source = StatusSource(lambda: True, lambda: b"", self._status_of(number))
            new_door(folder, await StatusEndpoint(source, token=token).start("127.0.0.1:0"), token)

    def _status_of(self, number: int) -> Callable[[], dict[str, object]]:
        def key(one: int) -> str:
            return str(SigningKey.from_seed(one.to_bytes(32, "big")).principal)

        links = [
            {"link": one, "peer": key(number * LINKS + one + 1), "role": "client", "subscriptions": 3,
             "advertisements": 1, "open_s": 60}
            for one in range(LINKS)
        ]  # fmt: skip
        kept = {
            "principal": key(10_000 + number), "network": "city", "address": f"127.0.0.1:{7400 + number}",
            "clients": LINKS, "peers": 4, "subscriptions": 24, "advertisements": 8, "certificates": 40,
            "links": links,
            "audiences": {bytes([one]).hex() * 32: {"classes": 2, "members": 6} for one in range(4)},
        }  # fmt: skip

        def status() -> dict[str, object]:
            self.asked.append(time.time())
            return {**kept, "counters": {"maia_rows_published_total": self._published}}

        return status

    def publish(self) -> None:
        """Have every broker say that events were published."""
        self._published += 1000


@contextmanager
def _console(folder: Path, brokers: _Brokers, certificates: int) -> Iterator[tuple[str, str]]:
    """Run a domain's server with a console; yield its address, and a link that signs the domain's key in."""
    made = maia.Organisation.create(folder / "city")
    made.define("Numberplate", plate="string", place="string")
    _issue_many(made, certificates)
    profile = {
        "key": "city.key", "types": ["types"], "server": made.addresses["server"],
        "domain": str(made.principal),
    }  # fmt: skip
    (made.folder / "admin.toml").write_text(toml_text(profile))
    config = {
        "listen": "127.0.0.1:0", "profiles": ["admin.toml"], "issued": ["many"],
        "brokers": [str(one) for one in brokers.folders],
    }  # fmt: skip
    (made.folder / "console.toml").write_text(toml_text(config))
    command = [sys.executable, "-m", "maia.cli"]
    running: list[subprocess.Popen[str]] = []
    try:
        for words in (("domain", "serve"), ("console", "serve")):
            file = made.folder / f"{words[0]}.toml"
            one = subprocess.Popen(
                [*command, *words, "--config", str(file), "--json"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            running.append(one)
            assert one.stdout is not None
            ready = json.loads(one.stdout.readline())
        opened = [*command, "console", "open", "--as", str(made.folder / "admin.toml")]
        link = subprocess.run(opened, capture_output=True, text=True, check=True).stdout.strip()
        yield ready["listening"], link
    finally:
        for one in running:
            one.terminate()
            one.wait(START_S)


def _issue_many(made: maia.Organisation, how_many: int) -> None:
    """Grant departments a right that they pass on, until there are as many certificates as wanted."""
    owner = load_signing_key(made.folder / "city.key")
    folder = made.folder / "many"
    folder.mkdir(mode=0o700)
    pattern = TypePattern(owner.principal, NamePattern("Numberplate"), None)
    authority = Authority(pattern, frozenset({Action.SUBSCRIBE}))
    departments = [SigningKey.from_seed(bytes([one + 1]) * 32) for one in range(DEPARTMENTS)]
    for number in range(how_many):
        is_top = number < DEPARTMENTS
        issuer = owner if is_top else departments[number % DEPARTMENTS]
        subject = departments[number] if is_top else SigningKey.from_seed((number + 1).to_bytes(32, "little"))
        said = AuthorisationCertificate(issuer.principal, subject.principal, is_top, authority, UNBOUNDED)
        (folder / f"{number}.cert").write_text(certificate_to_text(issue(said, issuer)))


# ------------------------------------------------------------ how soon a program starts


def _starts(rounds: int) -> Iterator[Case]:
    tools = Path(sys.executable).parent
    peer = shutil.which("http") or str(tools / "httpx")
    python = [sys.executable, "-c"]
    pairs = (
        ("`import maia` / `import httpx`", [*python, "import maia"], [*python, "import httpx"]),
        (f"`maia --help` / `{Path(peer).name} --help`", [str(tools / "maia"), "--help"], [peer, "--help"]),
    )  # fmt: skip
    for case, ours, theirs in pairs:
        times = [(_took(ours), _took(theirs)) for _ in range(rounds)]
        yield Figure(
            case,
            [mine / other for mine, other in times],
            at_most(1),
            [mine * 1e6 for mine, _ in times],
            [other * 1e6 for _, other in times],
        )


def _took(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


BENCH = Benchmark(
    number=37,
    name="console",
    about="the console of 50 brokers and 2,000 certificates; starts of the command line",
    cases=cases,
    peer_lacks="httpx reads no configuration, and `httpx --help` stands in where HTTPie is not installed",
)
