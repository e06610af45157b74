"""Who may sign for the quorums that own networks and types here?

Constitutions are files of `maia quorum`, and lie beside certificates:
wherever those are read, from files or folders, `*.quorum` is read too. Of
several histories of one quorum the longest counts, and two that contradict
each other are refused. A server remembers the newest in its data folder, so
that an old file put in its place brings no former member back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from maia.config.input_files import QUORUM_SUFFIX, BadFile, read_text
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

FILES_MAX: Final = 1024
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
    files = list(_files(paths))
    if len(files) > FILES_MAX:
        raise BadFile(f"{len(files)} constitutions are more than the {FILES_MAX} that are read at once")
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
            path = folder / f"{quorum.digest.hex()}{QUORUM_SUFFIX}"
            text = evidence_to_text(evidence)
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                continue
            new = path.with_suffix(".new")
            with new.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
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


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob(f"*{QUORUM_SUFFIX}"))
        elif path.suffix == QUORUM_SUFFIX:
            yield path
