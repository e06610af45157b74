"""Which policy does the operator's file hold, and is it good enough to be put in force?

At the start, at SIGHUP and on request the file is read again. A file that is
missing, empty, half written, unreadable or wrong changes nothing: the last
good policy stays in force, and without one nothing is granted (A42).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from maia.config.input_files import read_text
from maia.config.start_checks import opened
from maia.credentials import Principal
from maia.domain.access.results import LoadedPolicy, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.server.config import PreparedDomain
from maia.domain.server.prepared_access import PreparedAccess
from maia.domain.server.service import DomainService
from maia.errors import BadInput, MaiaError
from maia.net.observer import Records


class EmptyPolicy(BadInput):
    """A policy's file is empty; a policy that grants nothing says so."""

    code = "INPUT-POLICY-EMPTY"


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy and the role sets that it imports, as files."""

    path: Path
    parents: Mapping[str, Path] = field(default_factory=dict)

    def read(self) -> tuple[str, dict[str, str]]:
        """Return the texts; refuse what cannot be a whole policy."""
        text = read_text(self.path)
        if not text.strip():
            raise EmptyPolicy(f"`{self.path}` is empty; the policy before stays in force")
        return text, {name: read_text(path) for name, path in self.parents.items()}

    async def put_in_force(
        self, service: DomainService, *, actor: Principal | None = None
    ) -> tuple[LoadedPolicy, bool]:
        """Read the files again and put the policy in force; raise, and change nothing, if it is wrong.

        Also returns whether a broker has what was revoked. Without an actor it is the domain's own act.
        """
        by = service.principal if actor is None else actor
        text, parents = self.read()
        now, loaded = service.clock(), list[LoadedPolicy]()

        def work(access: AccessControl) -> Revoked:
            found = access.load_policy(text, actor=by, now=now, parents=parents)
            loaded.append(found)
            return found.revoked

        _, is_known = await service.take_away(work)
        return loaded[0], is_known

    async def begin(self, service: DomainService, records: Records) -> bool:
        """Put the policy in force at a start, unless it was in force once and was replaced since.

        Otherwise a crash would bring back what an administrator has taken away (A82).
        """
        with suppress(MaiaError):  # what is wrong with the file is logged below
            text, parents = self.read()
            if await service.ask(lambda access: access.was_replaced(text, parents)):
                why = "another policy has replaced it since; `maia domain policy reload` goes back to it"
                records.note("policy", {"policy": str(self.path), "why": why})
                return False
        return await self.try_to(service, records)

    async def try_to(self, service: DomainService, records: Records) -> bool:
        """Put the policy in force if it is good; log what is wrong with it if it is not."""
        try:
            found, _ = await self.put_in_force(service)
        except MaiaError as problem:
            wrong = {"policy": str(self.path), "code": problem.code, "why": problem.message}
            records.note("refused", wrong)
            return False
        fields = {"version": found.version, "digest": found.digest.hex(), "unchanged": found.is_unchanged}
        records.note("policy", fields)
        return True


def policy_file(prepared: PreparedAccess) -> PolicyFile | None:
    """Return the policy's file, if the configuration names one."""
    file = prepared.config.policy_file
    return None if file is None else PolicyFile(file, prepared.config.policy_parents)


def check_policy_file(prepared: PreparedDomain) -> None:
    """Raise, at the line that names it, if the policy's file or one that it imports cannot be read.

    For an operator who asks. A server starts nevertheless, and its last good
    policy stays in force; what the text says is checked against its types there.
    """
    file = None if prepared.access is None else policy_file(prepared.access)
    if file is not None:
        opened(prepared.config, "policy.file", file.read)
