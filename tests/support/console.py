"""A hospital with its servers and a console, for tests that look at it over HTTP or in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

import maia
from maia.testing import Server, free_port
from support.processes import forked
from support.processes import maia as command

__all__ = ["Hospital", "hospital_with_console"]

SCRIPT = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
"""What a person could call a ward who wants to run a script in another person's console."""


@dataclass
class Hospital:
    """A hospital whose lab publishes, whose office sees a part, and whose auditor reads the register."""

    made: maia.Organisation
    url: str
    _stack: ExitStack = field(repr=False)

    def link(self, name: str = "") -> str:
        """Return a link that signs the holder of a profile in; without a name, the hospital itself."""
        said = command("console", "open", *(["--as", name] if name else []), cwd=self.made.folder)
        assert said.returncode == 0, said.stderr
        return said.stdout.strip()

    def browser(self) -> httpx.Client:
        """Return a browser without cookies."""
        # It speaks no TLS, and reading the authorities of the web would take longer than all it asks.
        client = httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=60)  # noqa: S501
        return self._stack.enter_context(client)

    def signed_in(self, name: str = "") -> httpx.Client:
        """Return a browser in which the holder of a profile is signed in."""
        browser, link = self.browser(), self.link(name)
        assert browser.get(link).status_code == 200
        answer = browser.post("/open", data={"link": link.partition("link=")[2]}, headers=self.origin)
        assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
        return browser

    @property
    def origin(self) -> dict[str, str]:
        """Return the header by which a browser says that a form is of the console."""
        return {"Origin": self.url}

    def logs(self) -> str:
        """Return what the servers have written."""
        return "\n".join(one.read_text() for one in sorted(self.made.folder.glob("*-output/*.log")))


def let_read(made: maia.Organisation, name: str, *topics: str) -> None:
    """Let a member read administrative topics of the hospital."""
    for topic in topics:
        label = topic.rpartition("/")[2]
        said = command(
            "cert", "issue", "-k", f"{made.name}.key", "--subject", f"{name}.maia/{name}.pub",
            "--owner", f"{made.name}.pub", "--topic", topic, "--action", "subscribe", "--days", "6",
            "-o", f"{name}.maia/certs/{label}.cert", cwd=made.folder,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr


@contextmanager
def hospital_with_console(folder: Path, ward: str = SCRIPT) -> Iterator[Hospital]:
    """Run a hospital's broker, its domain's server and its console while the body runs."""
    made = maia.Organisation.create(folder / "hospital")
    made.define("LabResult", patient="string", ward="string", value="float", taken="timestamp")
    made.add_member("lab", may="publish:LabResult")
    made.add_member("office", may="subscribe:LabResult", only=["ward", "value", "taken"])
    made.add_member("intern", may="subscribe:LabResult", where=f'ward == "{ward}"')
    made.add_member("auditor")
    let_read(made, "auditor", "/admin/register", "/admin/network", "/admin/audit")
    broker = made.folder / "broker.toml"
    broker.write_text(broker.read_text() + '\n[ledger]\nfolder = "ledger"\nall = true\n')
    address = f"127.0.0.1:{free_port()}"
    commands = {
        "broker": ("broker", "--config", broker),
        "domain": ("domain", "serve", "--config", made.folder / "domain.toml"),
        "console": ("console", "serve", "--org", made.folder, "--listen", address),
    }
    with ExitStack() as stack:
        hospital = Hospital(made, f"http://{address}", stack)
        for name, words in commands.items():
            server = Server(words, made.folder / f"{name}-output", forked)
            stack.callback(server.kill)
            server.ready("listening")
        yield hospital
