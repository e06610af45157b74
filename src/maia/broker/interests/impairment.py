"""Can this broker serve what is registered here, and who is warned when it cannot?

A broker without keys of a sealed type can neither seal nor open it, and one
that no other broker answers serves its own clients alone. A publisher's
frames are refused then, with the reason and the cure. A subscription is
registered all the same: its holder is warned, and again when it changes. Only a
holder whose request was permitted is warned (A38). The log has one line for
each change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.broker.interests.routes import Routes
from maia.broker.keys.keys import KeyRequests, SealingKeys, parts_read
from maia.broker.links.links import Entry, Link, Role, Subscription
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.refusals import CutOff, KeysAwaited, KeyServerAway, LogFull, NoKeys, NoSecret
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.broker.turn import Turn
from maia.errors import Unavailable
from maia.events import AttributeUid, Instant, seconds_after
from maia.expressions.syntax import is_keyed
from maia.policy.answers import Shown, answered, unanswered
from maia.policy.view import shows
from maia.predicates import AllOf, attributes_of
from maia.types import SealingLevel
from maia.wire.effects import LinkId
from maia.wire.messages import Warned

KeyLack: TypeAlias = NoKeys | KeyServerAway | KeysAwaited
_SILENT_TIMES: Final = 3
"""So often a broker is dialled in vain before clients are warned: servers may be starting together."""
_CURE: Final = "issue one to `{broker}`, or connect to a broker that has one"


ROUTE: Final = b""
"""In place of a type id: the way to other brokers, which all types need."""


@dataclass(slots=True, eq=False, repr=False)
class Impairments:
    """What cannot be served at this moment, and who was told."""

    own: Own
    links: Mapping[LinkId, Link]
    routes: Routes
    types: KnownTypes
    keys: KeyRequests
    seals: SealingKeys
    statements: ValidityTracker
    recording: Recording | None
    changed: set[bytes] = field(default_factory=set, init=False)
    """Types of which it may be another answer now."""
    _last: dict[bytes, object] = field(default_factory=dict, init=False)
    """What the answer about each type was."""
    _noted: dict[bytes, str] = field(default_factory=dict, init=False)
    """What the log has said of each type."""
    _awaited: dict[bytes, Instant] = field(default_factory=dict, init=False)
    """Up to when keys that are on their way are waited for without a warning."""
    _silent_seeds: dict[str, str] = field(default_factory=dict, init=False)
    """Where no broker has become a neighbour since there was one last, and why, if it answered."""
    _in_vain: Counter[str] = field(default_factory=Counter, init=False)
    """How often each of these was dialled since."""
    _problem_of_log: str = field(default="", init=False)
    """Why nothing can be recorded at this moment."""

    def key_lack(self, type_id: bytes, now: Instant) -> NoKeys | KeyServerAway | None:
        """Return why this broker can neither seal nor open a type; None if it can, or may at any moment."""
        keys, broker = self.keys, self.own.principal
        if self.types.sealing(type_id) is None or self.seals.has_begun(type_id, now):
            return None
        rights = keys.opens_any(type_id)
        if rights is None:
            return None
        name = self.types.versions(type_id)[-1].name.name
        if not rights:
            if self.statements.awaits(self.own.settings.credentials, now):
                return None  # a tester's statement may arrive at any moment, and the keys with it
            lacks = (
                f"this broker holds no key of `{name}`: it has no certificate for it, or one that transforms"
            )
            return NoKeys(f"{lacks}; {_CURE.format(broker=broker)}")
        if type_id in keys.refused:
            refused = f"the key server of `{name}` gives this broker no key [{keys.refused[type_id]}]"
            return NoKeys(f"{refused}: check the certificates of `{broker}`, or connect to another broker")
        manager = keys.member.manager_of(type_id)
        if manager is None:
            return NoKeys(f"this broker holds no key of `{name}`: it holds keys of as many types as it may")
        if not manager.addresses:
            lacks = (
                f"this broker knows no key server of `{name}`: the definition of the type names no address"
            )
            return NoKeys(f"{lacks}; name one as `keys` in the configuration of the broker")
        if not manager.is_away:
            return None
        away = f"the key server of `{name}` at `{'`, `'.join(manager.addresses)}`"
        cure = "correct its address (`keys` in the configuration of the broker)"
        if manager.problem:
            return KeyServerAway(f"{away} is of no use [{manager.problem}]: look at its log, or {cure}")
        return KeyServerAway(f"{away} does not answer: start it, or {cure}")

    def dial_or_lack(self, type_id: bytes, turn: Turn) -> KeyLack | None:
        """Return why a new publisher of a type is to be refused, and let the log know.

        A key server that was away is dialled again instead, unless it was a moment ago: frames wait for that.
        """
        lack = self.key_lack(type_id, turn.now)
        if isinstance(lack, KeyServerAway) and self.keys.dial_again(type_id, turn):
            return None
        if lack is not None:
            self._log_change(type_id, lack, turn)
        return lack

    def warn(self, link: Link, entry: Entry, turn: Turn) -> None:
        """Tell the holder of an entry why nothing can arrive, or that it can again, if that is news."""
        type_id, now = entry.right.event_type.type_id, turn.now
        lack: Unavailable | None = None
        if self.types.sealing(type_id) is not None:
            lack = self.key_lack(type_id, now) or self.await_keys(type_id, now)
            if lack is None and isinstance(entry, Subscription):
                lack = self._unreadable(entry, now)
        problem = (
            lack
            or self._log_full_for(type_id)
            or self._cut_off()
            or self._secret_lack(entry)
            or self._stands_still(entry, now)
        )
        if problem is None and self._are_keys_awaited(type_id, now):
            self._last.pop(type_id, None)  # whatever comes of it is news
            return
        if (None if problem is None else problem.message) == link.warned.get(entry.ref):
            return
        if problem is None:
            del link.warned[entry.ref]
            turn.send(link.id, Warned(entry.ref, None, "it can be served again"))
            return
        link.warned[entry.ref] = problem.message
        turn.send(link.id, Warned(entry.ref, problem.code, problem.message))
        # The others are noted once for all types, or are of their holder's right alone.
        if not isinstance(problem, CutOff | LogFull | NoSecret):
            self._log_change(type_id, problem, turn)

    def warn_of_changes(self, turn: Turn) -> None:
        """Warn the holders of all that a change concerns, and let the log know."""
        now = turn.now
        changed, self.changed = self.changed, set()
        changed = {type_id for type_id in changed if type_id == ROUTE or self._note_change(type_id, now)}
        if not changed:
            return
        for link in list(self.links.values()):
            if link.role is Role.CLIENT and link.is_ready:
                for entry in link.entries:
                    if ROUTE in changed or entry.right.event_type.type_id in changed:
                        self.warn(link, entry, turn)
        for type_id in sorted(changed & self._noted.keys() - {ROUTE}):
            # Of a type that no client has asked for here nothing is missed: brokers carry what they cannot
            # read.
            problem = self.key_lack(type_id, now) or self.await_keys(type_id, now)
            if problem is not None or not self._are_keys_awaited(type_id, now):
                self._log_change(type_id, problem, turn)
        if ROUTE in changed:
            self._log_change(ROUTE, self._log_full_for() or self._cut_off(), turn)

    def late(self, now: Instant) -> set[bytes]:
        """Return the types whose keys have been awaited for so long that their readers are to be warned."""
        return {type_id for type_id, until in self._awaited.items() if until <= now}

    def next_due(self, now: Instant) -> Instant | None:
        """Return when the next keys will have been awaited for too long."""
        return min((until for until in self._awaited.values() if until > now), default=None)

    def seed_silent(self, address: str) -> None:
        """Take note that no broker answers at a configured seed."""
        if address in self.own.settings.seeds and not self.routes.neighbours:
            self._silent_seeds[address] = ""
            self._in_vain[address] += 1
            if self._in_vain[address] >= _SILENT_TIMES:
                self.changed.add(ROUTE)

    def seed_refused(self, address: str, why: str) -> None:
        """Take note of the reason for which there is no link to a configured seed, behind `seed_silent`."""
        if address in self._silent_seeds:
            self._silent_seeds[address] = why

    def neighbour_found(self) -> None:
        """Take note that there is a link to the network."""
        if self._silent_seeds:
            self._silent_seeds.clear()
            self._in_vain.clear()
            self.changed.add(ROUTE)

    def _note_change(self, type_id: bytes, now: Instant) -> bool:
        """Take note of what can be served of a type; say whether that has changed since the last time."""
        lack = self.key_lack(type_id, now)
        if lack is not None:
            self._awaited.pop(type_id, None)
        is_late = self._awaited.get(type_id, now + 1) <= now
        summary = (None if lack is None else lack.message, is_late, self.keys.member.groups(type_id))
        is_changed = self._last.get(type_id) != summary
        self._last[type_id] = summary
        return is_changed

    def _are_keys_awaited(self, type_id: bytes, now: Instant) -> bool:
        return self.types.sealing(type_id) is not None and not self.seals.has_begun(type_id, now)

    def await_keys(self, type_id: bytes, now: Instant) -> KeysAwaited | None:
        """Begin to wait for keys, if they are to come; return that they were asked for too long ago."""
        if self.seals.has_begun(type_id, now):
            self._awaited.pop(type_id, None)
            return None
        wait_s = self.own.settings.limits.wait_for_keys_s
        if self._awaited.setdefault(type_id, seconds_after(now, wait_s)) > now:
            self.routes.is_changed = True  # there is another moment to be woken at
            return None
        return self.keys_overdue(type_id)

    def _stands_still(self, entry: Entry, now: Instant) -> KeysAwaited | None:
        """Return that a durable subscription has waited for long for keys of the past, if it has."""
        cursor = entry.cursor if isinstance(entry, Subscription) else None
        since = None if cursor is None else cursor.waits_since
        if since is None or seconds_after(since, self.own.settings.limits.wait_for_keys_s) >= now:
            return None
        name = entry.right.event_type.name.name
        return KeysAwaited(
            f"what was recorded of `{name}` waits for the keys of its time, or for the certificates of its "
            "signer: nothing is left out, and it goes on when the key server of the type answers"
        )

    def keys_overdue(self, type_id: bytes) -> KeysAwaited:
        """Return that keys were waited for in vain."""
        name, wait_s = self.types.versions(type_id)[-1].name.name, self.own.settings.limits.wait_for_keys_s
        return KeysAwaited(
            f"the keys of `{name}` have not come within {wait_s} seconds: look at the log of its key server"
        )

    def _unreadable(self, entry: Subscription, now: Instant) -> NoKeys | Unavailable | None:
        """Return that this broker has keys, and none of what a subscriber may see."""
        event_type, windows = entry.right.event_type, entry.right.view.windows
        type_id, sealing = event_type.type_id, self.types.sealing(event_type.type_id)
        if sealing is None:
            return None
        if not self.seals.has_begun(type_id, now) or self.keys.member.is_suspended(type_id):
            return None  # the keys are on their way
        is_whole = sealing.level is SealingLevel.EVENT
        if is_whole and not parts_read(self.seals, type_id):
            return None
        ring, view = self.seals.ring_of(type_id), entry.right.view
        held = {uid for uid in event_type.kinds if self.seals.holds(type_id, uid, now)} | self._made(type_id)
        if is_whole and (ring is None or answered(view, ring.answers, ring.readable) == view):
            held = set()
        seen = {uid for uid in event_type.kinds if any(shows(window, uid) for window in windows)}
        wanted = entry.right.filter
        parts = wanted.parts if isinstance(wanted, AllOf) else (wanted,)
        if seen and not seen & held:
            lacks = f"this broker holds no key of any attribute of `{event_type.name.name}` that you may see"
        elif any(asked and not asked.intersection(held) for asked in map(attributes_of, parts)):
            # Of the filter alone, which is its holder's own: a restriction may be none of its business (A38).
            of = event_type.name.name
            lacks = f"this broker holds no key of attributes of `{of}` that your filter asks about"
        else:
            return self._unanswered(entry)
        return NoKeys(f"{lacks}: it has no certificate for one; {_CURE.format(broker=self.own.principal)}")

    def _made(self, type_id: bytes) -> set[AttributeUid]:
        """Return the attributes of which this broker opens what was made for rights that transform."""
        ring = self.seals.ring_of(type_id)
        answers = (
            {} if ring is None else {uid: ring.answers[uid] for uid in ring.answers if uid in ring.readable}
        )
        return {said.uid for said in answers.values() if isinstance(said, Shown) and said.uid is not None}

    def _unanswered(self, entry: Subscription) -> Unavailable | None:
        """Return that a right is restricted by what this broker can neither read nor have answered."""
        event_type = entry.right.event_type
        ring = self.seals.ring_of(event_type.type_id)
        if ring is None or not event_type.kinds.keys() & unanswered(
            entry.right.view, ring.answers, ring.readable
        ):
            return None
        return Unavailable(
            "UNAVAILABLE-RESTRICTION-UNANSWERED",
            f"your right to `{event_type.name.name}` is about attributes that this broker may not "
            "read, and no broker answers for them; ask its issuer to show you these attributes, or connect "
            "to a broker that may read them",
        )

    def note_log(self, problem: str) -> None:
        """Take note that the event log cannot be written at this moment, or can again."""
        if problem != self._problem_of_log:
            self._problem_of_log = problem
            self.changed.add(ROUTE)

    def _log_full_for(self, type_id: bytes | None = None) -> LogFull | None:
        """Return that what is published waits for the disk: of a type, if it is recorded at all."""
        log, problem = self.recording, self._problem_of_log
        if not problem or log is None or (type_id is not None and not log.records(type_id)):
            return None
        return LogFull(
            f"this broker records nothing ({problem}): what is published waits until it does; look at the "
            "disk of `log.folder`: its room, its errors, and whether it may be written"
        )

    def _secret_lack(self, entry: Entry) -> NoSecret | None:
        """Return which values a right shows that this broker cannot compute, and leaves out."""
        right, here = entry.right, self.own.settings.transformation_keys.issuers
        steps = [step for window in right.view.windows for step in window.transformations]
        lacking = [
            one for one in (*steps, *right.view.on_publication) if one.is_keyed() and one.by.key not in here
        ]
        if not lacking:
            return None
        called = {one.uid: one.name for one in right.event_type.attributes}
        made = sorted(
            {called.get(rule.uid, rule.uid) for one in lacking for rule in one.rules if is_keyed(rule.value)}
        )
        called_for = "`, `".join(made) or right.event_type.name.name
        return NoSecret(
            f"`{called_for}` is null at this broker, which has no secret or table of `{lacking[0].by}` to "
            "compute it with; use a broker of that issuer, or name the file that it hands over as "
            "`transformation_keys` in the configuration of this one"
        )

    def _cut_off(self) -> CutOff | None:
        """Return that no other broker can be reached, where there should be one."""
        seeds = self.own.settings.seeds
        found, in_vain = self._silent_seeds, self._in_vain
        if not seeds or self.routes.neighbours or min(in_vain[one] for one in seeds) < _SILENT_TIMES:
            return None
        answered = [f"`{seed}` ({found[seed]})" for seed in seeds if found[seed]]
        if answered:
            since, cure = (
                f"there is none with {', '.join(answered)}",
                "renew its right to connect (`maia org join`)",
            )
        else:
            since, cure = f"no broker answers at `{'`, `'.join(seeds)}`", "start one of these brokers"
        return CutOff(
            f"this broker has no link to the network, since {since}: only its own publishers and subscribers "
            f"reach each other; {cure}, or correct `join` in the configuration of this one"
        )

    def _log_change(self, about: bytes, problem: Unavailable | None, turn: Turn) -> None:
        """Write the line of the log about a change, if it is one."""
        noted = self._noted
        if noted.get(about) == (None if problem is None else problem.message):
            return
        fields = {} if about == ROUTE else {"type": about.hex()}
        if problem is None:
            del noted[about]
            turn.note("unimpaired", **fields)
            return
        noted[about] = problem.message
        turn.note("impaired", **fields, code=problem.code, message=problem.message)
