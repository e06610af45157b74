"""What does the right behind a recipient show, at this moment?

A recipient reads under the right of a member, whose profile lies with the server. For each type that is
asked for, the log is opened as that member (`maia.open_log`), and its watch over the right goes on
while the type is in use. Every call asks it again, and it asks the testers in the member's
certificates; a right that was decided otherwise by now is decided anew. Keys and certificates of
writers are fetched after the frames were recorded that they are to open.
"""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa

from maia.client.api.connection import signing_key
from maia.credentials.names import type_id
from maia.errors import BadInput, MaiaError, Refusal
from maia.events import Attribute
from maia.policy import PolicyRefusal
from maia.profile import Profile, read_profile
from maia.share.config import ShareConfig
from maia.share.recipients import Recipient
from maia.share.writing import ShownPart
from maia.spark.open_log import RecordedLog, RecordedTable, open_log, rows_for_tasks

_Result = TypeVar("_Result")

FRESH_S: Final = 0.5
"""How old the answers of testers may be to which a call is answered."""
_ASK_S: Final = 2.0
"""How long a call waits for testers; those that hang are asked on, and what they have stated ends in time."""
_IDLE_S: Final = 600.0
RIGHTS_MAX: Final = 256
"""Rights that are watched at one time: those that were not asked for longest make room."""
_FILES_MAX: Final = 4096
_LOCAL: Final = "127.0.0.1"
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9_-]")
SCHEMA: Final = "types"
"""The schema of types whose names are clear without their owners."""


class NotShared(Refusal):
    """There is no such share, schema, table or file for this recipient."""

    code = "NOT-SHARED"


@dataclass(frozen=True, slots=True)
class SharedName:
    """What a type is called in the share."""

    schema: str
    table: str
    word: str
    """How the member's profile calls the type."""
    type_id: bytes

    @property
    def folded(self) -> tuple[str, str]:
        """Return the name as it is compared."""
        return self.schema.lower(), self.table.lower()


class Right:
    """One member's right to one type, as it was decided, and its watch."""

    def __init__(self, log: RecordedLog, table: RecordedTable) -> None:
        """Take over a log that was opened for this."""
        self._log, self._table = log, table
        self.opened_at = self.asked_at = self.used_at = time.monotonic()
        self._users = 0
        self.is_over = False
        self.shown_class = table.read.shown_class
        self.event_type = table.read.event_type
        self.is_sealed = any(one.sealing is not None for one in table.read.access.versions)
        self._asking: Future[None] | None = None
        self._parts: list[ShownPart] | None = None
        self._lock = threading.Lock()

    @property
    def shown(self) -> tuple[Attribute, ...]:
        """Return the attributes that the right shows; raise where they cannot be a table."""
        if self._table.read.is_summary:
            raise not_as_published()
        shown = self._table.read.shown
        if not shown:
            raise BadInput("INPUT-SHARE-TABLE", "your right shows no attribute of this type")
        if len({one.name.lower() for one in shown}) < len(shown):
            raise BadInput(
                "INPUT-SHARE-TABLE", "two attributes of this type differ by case alone: clients confuse them"
            )
        return shown

    @property
    def missing(self) -> int:
        """Return how many publications the log is known to lack."""
        return self._table.missing

    @property
    def arrow_schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        return pa.schema([self._table.schema.field(one.name) for one in self.shown])

    def parts(self) -> list[ShownPart]:
        """Return what shows rows of frames, and puts them on record."""
        with self._lock:
            if self._parts is None:
                names = [one.name for one in self.shown]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # what is missing is in the metadata of the table
                    found = list(rows_for_tasks(self._table, _LOCAL, _LOCAL))
                self._parts = [
                    ShownPart(narrow := seen.narrowed(names), ledger.narrowed(narrow.delivered))
                    for seen, ledger in found
                    if ledger is not None
                ]
            return self._parts

    def holds(self, asking: ThreadPoolExecutor) -> bool:
        """Return whether the right goes on as it was decided; testers are asked unless they just were."""
        with self._lock:
            self.used_at = time.monotonic()
            if self._asking is None or (self._asking.done() and self.used_at > self.asked_at + FRESH_S):
                self.asked_at = self.used_at
                self._asking = asking.submit(self._ask)
            asked = self._asking
        wait([asked], timeout=_ASK_S)
        return not self.is_over and self._table.holds

    def _ask(self) -> None:
        with suppress(MaiaError):
            self._log.ask_again()

    def take(self) -> None:
        """Keep the keys until they are let go as often as they were taken."""
        with self._lock:
            self._users += 1

    def let_go(self) -> None:
        """Let the keys go where the right is over and nothing uses it any more."""
        with self._lock:
            self._users -= 1
            if self.is_over and not self._users:
                self._log.close()

    def end(self) -> None:
        """Use it for nothing new."""
        with self._lock:
            self.is_over = True
            if not self._users:
                self._log.close()


@dataclass(slots=True)
class _Member:
    """What the profile of a member says now, and its rights in use, by the words of types."""

    profile: Profile
    stamp: object
    names: Mapping[tuple[str, str], SharedName]
    """By their folded names: the tables that may be shared."""
    rights: dict[str, Right] = field(default_factory=dict)
    listing: RecordedLog | None = None
    listed_at: float = 0.0
    listed: tuple[str, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)
    opening: dict[str, threading.Lock] = field(default_factory=dict)

    def close(self) -> None:
        """End its rights."""
        for one in self.rights.values():
            one.end()
        self.rights.clear()
        if self.listing is not None:
            self.listing.close()
            self.listing = None


class Rights:
    """The rights that are in use at one server."""

    def __init__(self, config: ShareConfig) -> None:
        """Open nothing yet."""
        self._config = config
        self._members: dict[str, _Member] = {}
        self._lock = threading.Lock()
        self.asking = ThreadPoolExecutor(8, thread_name_prefix="testers")

    @property
    def count(self) -> int:
        """Return how many are watched."""
        return sum(len(one.rights) for one in list(self._members.values()))

    def close(self) -> None:
        """Forget all keys."""
        with self._lock:
            for one in self._members.values():
                one.close()
            self._members.clear()
        self.asking.shutdown(wait=False, cancel_futures=True)

    # -------------------------------------------------------- names

    def listed(self, recipient: Recipient) -> list[SharedName]:
        """Return the tables of which the right shows anything, by their names."""
        member = self._member(recipient)
        with member.lock:
            if member.listing is None:
                member.listing = self._opened(member)
            if time.monotonic() > member.listed_at + FRESH_S:
                member.listing.ask_again()
                member.listed = member.listing.readable()
                member.listed_at = time.monotonic()
            readable = frozenset(member.listed)
        found = (one for one in member.names.values() if one.word in readable)
        return sorted(found, key=lambda one: one.folded)

    def named(self, recipient: Recipient, schema: str, table: str) -> SharedName:
        """Return the table of a name, which is compared without regard to case."""
        found = self._member(recipient).names.get((schema.lower(), table.lower()))
        if found is None:
            raise no_such_table()
        return found

    # -------------------------------------------------------- rights

    @contextmanager
    def lent(self, recipient: Recipient, word: str, *, newer_than: float = 0.0) -> Iterator[Right]:
        """Lend the right to a type, which holds at this moment; raise the refusal if there is none.

        `newer_than` is a moment after which it has to be opened, for keys of what was recorded until then.
        """
        member = self._member(recipient)
        with member.lock:
            opening = member.opening.setdefault(word, threading.Lock())
        with opening:
            right = member.rights.get(word)
            if right is not None and (right.opened_at < newer_than or not right.holds(self.asking)):
                right.end()
                del member.rights[word]
                right = None
            if right is None:
                right = self._decided(member, word)
                member.rights[word] = right
                self._make_room(right)
            right.take()
        try:
            yield right
        finally:
            right.let_go()

    def _decided(self, member: _Member, word: str) -> Right:
        log = self._opened(member)
        try:
            return Right(log, refused_plainly(lambda: log.table(word, ledger=self._config.ledger_place)))
        except BaseException:
            log.close()
            raise

    def _opened(self, member: _Member) -> RecordedLog:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return open_log(
                self._config.log, as_=member.profile, require_complete=self._config.require_complete
            )

    def _make_room(self, but: Right) -> None:
        with self._lock:
            idle = time.monotonic() - _IDLE_S
            held = [
                (one.used_at, member, word, one)
                for member in self._members.values()
                for word, one in list(member.rights.items())
                if one is not but
            ]
            held.sort(key=lambda each: each[0])
            for number, (used_at, member, word, one) in enumerate(held):
                if used_at < idle or len(held) - number >= RIGHTS_MAX:
                    member.rights.pop(word, None)
                    one.end()

    def _member(self, recipient: Recipient) -> _Member:
        """Return what the profile of a recipient's member says now."""
        with self._lock:
            member = self._members.get(recipient.profile)
            if member is not None and member.stamp == stamp_of(member.profile):
                return member
            if member is not None:
                member.close()
                del self._members[recipient.profile]
            try:
                profile = read_profile(Path(recipient.profile))
                stamp, key = stamp_of(profile), signing_key(profile)
            except (MaiaError, OSError) as problem:
                raise Refusal(
                    "REFUSED-SHARE-RIGHT", "the member whose right this was is no member any more"
                ) from problem
            if str(key.principal) != recipient.principal:
                raise Refusal("REFUSED-SHARE-RIGHT", "the member whose right this was has another key by now")
            member = _Member(profile, stamp, table_names(profile))
            self._members[recipient.profile] = member
            return member


def no_such_table() -> NotShared:
    """Return what is said of everything that a recipient cannot read, whether it is there or not."""
    return NotShared("there is no such share, schema or table for you")


def not_as_published() -> BadInput:
    """Return the refusal of what is no table of events."""
    return BadInput(
        "INPUT-SHARE-SHOWN-AS",
        "your right shows events of this type as another type, or summaries of them: these are not shared",
    )


def refused_plainly(work: Callable[[], _Result]) -> _Result:
    """Do something that needs a right: one that never was is no table, and one that has ended says so."""
    try:
        return work()
    except PolicyRefusal as problem:
        if problem.code == "POLICY-NO-CHAIN":
            raise no_such_table() from problem
        raise Refusal(
            "REFUSED-SHARE-RIGHT", f"the right behind this table does not hold now [{problem.code}]"
        ) from problem
    except BadInput as problem:
        if problem.code == "INPUT-SHOWN-AS":
            raise not_as_published() from problem
        raise


def table_names(profile: Profile) -> dict[tuple[str, str], SharedName]:
    """Return the tables of the types that a profile knows, by their folded names.

    The owner of a type is its schema where two owners have called a type the same. Characters for which
    clients have no place in a name are `_`; what is the same then has a part of the type's id behind it.
    """
    found: dict[tuple[str, str], list[SharedName]] = {}
    for word, (owner, full) in sorted(profile.type_words().items()):
        name, _, whose = word.partition("@")
        schema, table = _NO_WORD.sub("_", whose) or SCHEMA, _NO_WORD.sub("_", name).strip("_") or "type"
        one = SharedName(schema, table, word, type_id(owner, full))
        found.setdefault(one.folded, []).append(one)
    several = (
        one if len(some) == 1 else replace(one, table=f"{one.table}_{one.type_id.hex()[:8]}")
        for some in found.values()
        for one in some
    )
    return {one.folded: one for one in several}


def stamp_of(profile: Profile) -> object:
    """Return what changes when a profile does: its files, its certificates, its types and its wallet."""
    settings, found = profile.settings, []
    places = [profile.path, *settings.credentials, *profile.type_places()]
    for place in [*places, *([] if settings.key is None else [settings.key])]:
        with suppress(OSError):
            inside = (
                sorted(os.scandir(place), key=lambda one: one.name)[:_FILES_MAX] if place.is_dir() else ()
            )
            for one in (place, *inside):
                about = one.stat()
                # A folder's own time changes with what is written beside certificates, such as statements.
                if not place.is_dir() or (one is not place and one.name.endswith(_COUNTS)):
                    found.append((os.fspath(one), about.st_mtime_ns, about.st_size))
    return found


_COUNTS: Final = (".cert", ".quorum", ".type", ".toml", ".identity")
