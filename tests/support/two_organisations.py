"""A hospital that publishes and an institute that reads, each with its servers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import maia
from maia.testing import wait_until
from support.processes import running_maia


@dataclass(frozen=True)
class TwoOrganisations:
    hospital: maia.Organisation
    institute: maia.Organisation

    def profile(self, name: str) -> Path:
        """Return the profile of a member of either."""
        at_home = self.hospital.folder / f"{name}.maia"
        return at_home if at_home.exists() else self.institute.folder / f"{name}.maia"

    def connect(self, name: str) -> maia.BlockingClient:
        return maia.connect(self.profile(name))

    def start(self, stack: ExitStack) -> TwoOrganisations:
        """Run the servers of both until the stack is closed."""
        for organisation in (self.hospital, self.institute):
            for name, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
                folder = organisation.folder / f"{name}-output"
                folder.mkdir()
                config = organisation.folder / f"{name}.toml"
                stack.enter_context(running_maia(*words, "--config", config, cwd=folder))
                wait_until(lambda out=folder / "out.log": "listening" in out.read_text())
        return self
