"""Who may sign for the quorums that own networks and types here?

Constitutions are files of `maia quorum`, and lie beside certificates:
wherever those are read, from files or folders, `*.quorum` is read too. Of
several histories of one quorum the longest counts, and two that contradict
each other are refused. A server remembers the newest in its data folder, so
that an old file put in its place brings no former member back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from maia.config.input_files import QUORUM_SUFFIX, BadFile, files_in, read_text
from maia.credentials import (
    QuorumEvidence,
    QuorumId,
    VerifiedConstitution,
    evidence_from_text,
    evidence_to_text,
    quorum_of,
    verify_constitution,
)
from maia.errors import MaiaError
from maia.private_files import replace_file

_FOLDER: Final = "quorums"

Quorums = Mapping[QuorumId, tuple[QuorumEvidence, VerifiedConstitution]]
"""What is known of each quorum: the history that was shown, and the constitution that follows from it."""


def read_constitutions(paths: Iterable[Path]) -> tuple[VerifiedConstitution, ...]:
    """Return the constitutions that are in force by the files beside some certificates."""
    return constitutions_of(read_quorums(paths))


def constitutions_of(quorums: Quorums) -> tuple[VerifiedConstitution, ...]:
    """Return the constitution of each quorum that is in force."""
    return tuple(constitution for _, constitution in quorums.values())


def read_quorums(paths: Iterable[Path]) -> Quorums:
    """Read and verify every `*.quorum` file that is named, or lies in a folder that is."""
    files = files_in((one for one in paths if one.is_dir() or one.suffix == QUORUM_SUFFIX), QUORUM_SUFFIX)
    known: dict[QuorumId, tuple[QuorumEvidence, VerifiedConstitution]] = {}
    for file in files:
        try:
            evidence = evidence_from_text(read_text(file))
            quorum = quorum_of(evidence)
            known[quorum] = _newer(known.get(quorum), evidence, quorum)
        except BadFile:
            raise
        except MaiaError as problem:
            raise BadFile(f"`{file}`: {problem.message} [{problem.code}]") from problem
    return known


def remembered_in(data: Path | None) -> tuple[Path, ...]:
    """Return where a server with this data folder remembers constitutions; nowhere without one."""
    return () if data is None or not (data / _FOLDER).is_dir() else (data / _FOLDER,)


def keep_quorums(data: Path | None, quorums: Quorums) -> None:
    """Remember these constitutions; each file is replaced as a whole."""
    if data is None or not quorums:
        return
    folder = data / _FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for quorum, (evidence, _) in quorums.items():
            path, text = folder / f"{quorum.digest.hex()}{QUORUM_SUFFIX}", evidence_to_text(evidence)
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                replace_file(path, text.encode())
    except OSError as problem:
        raise BadFile(f"constitutions cannot be kept in `{folder}`: {problem.strerror}") from problem


def _newer(
    known: tuple[QuorumEvidence, VerifiedConstitution] | None, evidence: QuorumEvidence, quorum: QuorumId
) -> tuple[QuorumEvidence, VerifiedConstitution]:
    shown = (evidence, verify_constitution(evidence, quorum=quorum))
    if known is None:
        return shown
    older, newer = sorted((known, shown), key=lambda one: one[1].sequence)
    # The longer history must contain the shorter one; members who signed twice have made a fork.
    verify_constitution(
        newer[0], quorum=quorum, not_below_sequence=older[1].sequence, remembered_digest=older[1].digest
    )
    return newer
