"""How are a publisher's frames sealed, and in which form does a sealed frame leave for each neighbour?

A frame is sealed once there is a neighbour, or a log, to have it: as a whole, or the rows that are wanted
behind one neighbour. What a neighbour sent leaves as it came. Beside it goes the plaintext of
those attributes that the next broker may read anyway, where the operator wants that (K4; dissertation 7.4).

Frames that this broker seals are signed at the end of a turn, all of that turn with one signature: a
signature costs more than sealing a single event. Until then a frame's place in the order of effects is held
by an effect without bytes, which never leaves the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec.structs import replace

from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.router import Router
from maia.broker.keys.blinded import BlindedIds, CoverSlots
from maia.broker.keys.keys import KeyRequests, SealingKeys, answers_of
from maia.broker.links.transit import Transit, without_proof
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.refusals import KeysAwaited, PublishedTooLongAgo
from maia.broker.rights.authorisation import Authorisation
from maia.broker.streams.answers import AnswersGiven
from maia.broker.streams.paths import Paths
from maia.broker.streams.publisher import Answer
from maia.broker.streams.run import END, Apart, Run, Stage, refuse, unseen_by
from maia.broker.turn import Turn
from maia.credentials import Principal
from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.events import AttributeUid, Instant, Kinds
from maia.routing.duplicates import DuplicateMemory
from maia.routing.table.hops import TypeId
from maia.sealing import BATCH_MAX, Draft, EpochKeys, Publication, plaintexts_by_uid
from maia.sealing.frames.signed import draft_signed, drafts_signed
from maia.types import Sealing, SealingLevel
from maia.wire.codec import encode_known
from maia.wire.effects import Effect, LinkId, Logged, Record, Send
from maia.wire.messages import (
    CarriedSigned,
    Column,
    OpenContent,
    Sealed,
    SealedWithPlaintext,
)

SEALED_BYTES_MAX: Final = 12 << 20
"""A sealed frame is longer than what is in it, and has to fit into a message all the same."""
_WITH_PLAINTEXT_MAX: Final = 4 << 20
"""Bytes of ciphertext up to which plaintext goes along: a longer frame might not fit into one message."""
Matched: TypeAlias = tuple[Transit, frozenset[AttributeUid]]
"""What a frame is matched on, and the attributes of it that were not opened."""
_data_of: Final = attrgetter("data")


# ------------------------------------------------------------ keys


def awaiting_keys(
    type_id: bytes,
    sealing: Sealing,
    seals: SealingKeys,
    cover: CoverSlots,
    *,
    lack: Callable[[bytes, Instant], MaiaError | None],
    changed: Callable[[], None],
) -> Stage:
    """Let a publisher's frame wait for a key to seal it with, and one of a covered type for its slot.

    `lack` says why no key is on its way.
    """
    waiting = seals.publishing

    def await_keys(run: Run, turn: Turn) -> int | None:
        message, now = run.published[0], turn.now
        stream = run.link.id, message.ref
        has_begun = seals.has_begun(type_id, now) and not waiting.holds(type_id, stream)
        if has_begun and (sealing.cover is None or cover.taking == type_id):
            return None
        if run.count > 1:
            raise Apart
        if has_begun:
            cover.wait(type_id, run.link.id, message)
            changed()
            return END
        problem = lack(type_id, now)
        if problem is not None:
            raise problem  # no key is on its way
        size, held = 256 + sum(len(column.data) for column in message.columns), (run.link.id, message)
        if not waiting.put(type_id, stream, held, size=size, until=waiting.until(now)):
            raise KeysAwaited(
                "the keys of this sealed type are not here yet, and too many frames wait for them"
            )
        changed()
        return END

    return await_keys


class SealKeys:
    """The keys that a type's frames are sealed with."""

    __slots__ = ("_blinded", "_keys", "_sealing", "_seals", "_type_id")

    def __init__(
        self, type_id: bytes, sealing: Sealing, seals: SealingKeys, blinded: BlindedIds, keys: KeyRequests
    ) -> None:
        """Find keys for frames of a type."""
        self._type_id, self._sealing, self._seals = type_id, sealing, seals
        self._blinded, self._keys = blinded, keys

    def stage(self, answer: Answer | None = None) -> Stage:
        """Find keys for a run; what is too old is answered, if there is an `answer`."""

        def find(run: Run, turn: Turn) -> int | None:
            run.signer = self._seals.sealer.principal.key
            if run.count > 1:
                self._together(run, turn)
                return None
            if self._sealing.blinded and run.whole.requires:
                raise Refusal(
                    "REFUSED-REQUIREMENT-BLINDED", "a frame of a blinded type has no place for a requirement"
                )
            try:
                run.keys = self.of(run.whole, run.columns[0], turn.now)
            except PublishedTooLongAgo as problem:
                if answer is None:
                    raise
                refuse(problem, turn)
                return answer(run.published[0], run.messages[0].rows, turn)
            return None

        return find

    def of(self, whole: Transit, columns: Iterable[Column], now: Instant) -> EpochKeys:
        """Return the keys for a frame; refuse one that could not be sealed, or that no reader would open."""
        keys = self._found(whole, whole.published_at, now)
        if sum(map(len, map(_data_of, columns))) > SEALED_BYTES_MAX:
            raise BadInput(
                "INPUT-FRAME-ROWS", f"a frame of a sealed type has at most {SEALED_BYTES_MAX} bytes"
            )
        return keys

    def _together(self, run: Run, turn: Turn) -> None:
        size = sum([sum(map(len, map(_data_of, one))) for one in run.columns])
        if self._sealing.blinded or answers_of(self._seals, self._type_id) or size > SEALED_BYTES_MAX:
            raise Apart
        moments = [one.published_at for one in run.messages]
        keys = self._found(run.whole, min(moments), turn.now)
        # If readers accept an epoch for the earliest and for the latest moment, they do for those between.
        if self._seals.sealing_keys(keys.type_id, max(moments), turn.now) is not keys:
            raise Apart
        run.keys = keys

    def _found(self, whole: Transit, moment: int, now: Instant) -> EpochKeys:
        name = self._blinded.publishing_id(self._type_id, now)
        if name is None:
            raise Unavailable(
                "SEALING-KEY-MISSING", "this broker does not hold the key of the type's own group"
            )
        keys = self._seals.sealing_keys(name, moment, now)
        if keys is None:
            raise PublishedTooLongAgo("the frame was published at a moment whose keys are not used any more")
        wanted = tuple(whole.frame.columns) if self._sealing.level is SealingLevel.ATTRIBUTE else ("",)
        found = keys.ciphers(wanted, self._seals.sealer.instance)
        if None in found:
            lacking = wanted[found.index(None)]
            if lacking and self._keys.opens(self._type_id, AttributeUid(lacking)):
                # The key server has not made it yet, as of a new attribute: the publisher tries again.
                raise KeysAwaited(f"the key of attribute `{lacking}` is not here yet")
            raise Unavailable(
                "SEALING-KEY-MISSING", f"this broker does not hold the key of attribute `{lacking or '*'}`"
            )
        return keys


# ------------------------------------------------------------ forms


class Sealer:
    """How this broker seals frames of one type."""

    __slots__ = ("_answers", "_is_shared", "_level", "_seals")

    def __init__(
        self, seals: SealingKeys, answers: AnswersGiven, level: SealingLevel, *, is_shared: bool
    ) -> None:
        """Seal at a level; where plaintext `is_shared`, so that it can be compared with what was signed."""
        self._seals, self._answers, self._level, self._is_shared = seals, answers, level, is_shared

    def draft(self, transit: Transit, keys: EpochKeys | None) -> Draft:
        """Return a frame sealed, and not signed yet."""
        assert keys is not None  # noqa: S101 - looked for before
        label = transit.publisher, transit.stream, transit.sequence, transit.published_at, transit.frame.rows
        # The publisher's own signature would show hashes of what is sealed.
        about = Publication(*label, transit.kept, self._is_shared, without_proof(transit.author))
        return self._sealed([transit.columns()], [about], keys)[0]

    def answering(self, transit: Transit, keys: EpochKeys | None) -> Draft:
        """Return a publisher's frame sealed, with a column for each answer that this broker gives."""
        assert keys is not None  # noqa: S101 - looked for before
        return self.draft(self._answers.added_to(transit, keys), keys)

    def drafts(self, run: Run, leaves: Sequence[bool]) -> list[Draft]:
        """Return those single events of a run sealed that leave."""
        assert run.keys is not None  # noqa: S101 - looked for before
        publisher, stream, is_shared = run.whole.publisher, run.whole.stream, self._is_shared
        about = [
            Publication(publisher, stream, one.sequence, one.published_at, 1, (), is_shared)
            for one in compress(run.messages, leaves)
        ]
        return self._sealed(list(compress(run.columns, leaves)), about, run.keys)

    def _sealed(
        self, columns: Sequence[Sequence[Column]], about: Sequence[Publication], keys: EpochKeys
    ) -> list[Draft]:
        return self._seals.sealer.seal(columns, about, keys=keys, level=self._level)


@dataclass(slots=True, eq=False, repr=False)
class SealAlone:
    """How a publisher's frame is sealed and signed by itself, for a neighbour that asks for it."""

    own: Own
    seals: SealingKeys
    blinded: BlindedIds
    keys: KeyRequests
    answers_given: AnswersGiven

    def __call__(self, transit: Transit, sealing: Sealing, now: Instant) -> Sealed:
        """Return it sealed and signed."""
        found = SealKeys(transit.type_id, sealing, self.seals, self.blinded, self.keys)
        keys = found.of(transit, transit.columns(), now)
        is_shared = self.own.settings.share_plaintext
        sealer = Sealer(self.seals, self.answers_given, sealing.level, is_shared=is_shared)
        (frame,) = self.seals.sealer.sign([sealer.answering(transit, keys)])
        assert isinstance(frame, Sealed)  # noqa: S101 - it was drafted as one
        return frame


Share = Callable[[LinkId, Instant], frozenset[str]]
"""Says which uids of a type a neighbour may read anyway."""


class SignPlain:
    """How this broker signs frames of one type that travel in the clear, under the right of one publisher."""

    __slots__ = ("_at", "_kind", "_name", "_own", "_right", "_rights", "_signer")

    def __init__(self, kind: bytes, right: Authorisation, rights: NamedRights, signer: Principal) -> None:
        """Sign as `kind`, the publisher's own type or a super-type."""
        self._kind, self._right, self._rights, self._signer = kind, right, rights, signer
        self._name, self._at = b"", Instant(0)
        self._own: Authorisation | None = None

    def stage(self, run: Run, turn: Turn) -> None:
        """Name the right that frames leave under; refuse them if this broker cannot sign."""
        if self._own is None or not self._rights.holds(self._own, turn.now):
            self._name, self._own = self._rights.naming(self._kind, self._right, turn)
        if self._own is not None:
            self._rights.check_own(self._name, run.whole.frame, None, turn)
        self._at, run.signer = turn.now, self._signer.key

    @property
    def name(self) -> bytes:
        """Return how frames name the right that they leave under now."""
        return self._name

    def draft(self, transit: Transit, _keys: EpochKeys | None) -> Draft:
        """Return a frame that is to be signed."""
        return draft_signed(transit.as_carried(), self._signer, right=self._name, at=self._at)

    answering = draft

    def drafts(self, run: Run, leaves: Sequence[bool]) -> list[Draft]:
        """Return those single events of a run that leave."""
        frames = map(run.as_carried, compress(range(run.count), leaves))
        return drafts_signed(frames, self._signer, right=self._name, at=self._at)


class ForwardSealed:
    """Sends neighbours frames of which rows are wanted behind them; one that goes nowhere is not sealed.

    Frames of a signed type leave in the same way, in the clear.
    """

    __slots__ = (
        "_key",
        "_log",
        "_match",
        "_paths",
        "_rights",
        "_router",
        "_sealer",
        "_share",
        "_signing",
        "_source",
    )

    def __init__(  # noqa: PLR0913 - most are named at the call
        self,
        key: TypeId,
        source: LinkId | None,
        router: Router,
        signing: SignTogether,
        *,
        sealer: Sealer | SignPlain | None = None,
        share: Share | None = None,
        rights: NamedRights | None = None,
        log: Recording | None = None,
        match: Callable[[Transit, frozenset[AttributeUid]], Matched] | None = None,
        paths: Paths,
    ) -> None:
        """Send what a `sealer` seals of publishers here, or what came from a `source`.

        Where plaintext goes along, `share` says which; `log` has what is sealed here. Of a blinded type,
        `match` says on what a frame is matched, and no frame is cut. Signed frames name `rights`.
        """
        self._rights, self._paths = rights, paths
        self._key, self._source, self._router, self._signing = key, source, router, signing
        self._sealer, self._share, self._log, self._match = sealer, share, log, match

    def stage(self, run: Run, turn: Turn) -> None:
        """Send each neighbour a frame of which a row is wanted behind it."""
        self.send(run, run.whole, turn)

    def send(self, run: Run, whole: Transit, turn: Turn) -> None:
        """Send frames whose rows are those of `whole`."""
        part, missing = (whole, run.missing) if self._match is None else self._match(whole, run.missing)
        source, signer = self._source, run.signer
        targets = self._router.targets(self._key, part, source=source, missing=missing, signer=signer)
        if self._match is None:  # the path of a blinded stream would name its publisher
            self._paths.announce(targets, source, whole, turn)
        if self._sealer is None:
            self._pass_on(run, whole.view, targets, turn)
        elif run.count > 1:
            self._seal_each(run, self._sealer, targets, turn)
        else:
            self._seal(run, whole, self._sealer, targets, turn)

    def _seal(
        self, run: Run, whole: Transit, sealer: Sealer | SignPlain, targets: _Targets, turn: Turn
    ) -> None:
        drafts, is_blinded, keys = dict[tuple[int, ...], Draft](), self._match is not None, run.keys
        seal = sealer.draft if is_blinded else sealer.answering
        if self._log is not None and (run.inner is not None or not is_blinded):  # cover is not recorded
            drafts[()] = seal(whole, keys)
            self._signing.record(self._log, drafts[()], whole, turn, run.inner)
        for link, rows in targets.items():
            part = () if is_blinded or len(rows) == whole.frame.rows else tuple(rows)
            draft = drafts.get(part)
            if draft is None:
                draft = drafts[part] = seal(whole.cut(rows) if part else whole, keys)
            if self._router.flooding is not None:
                self._router.flooding.before_frame(link, turn)
            self._show_right(draft.frame, link, turn)
            self._signing.send(link, self._form(draft, link, turn), draft, turn)

    def _seal_each(self, run: Run, sealer: Sealer | SignPlain, targets: _Targets, turn: Turn) -> None:
        hops, log = run.by_frame(targets), self._log
        leaves = [log is not None or bool(one) for one in hops]
        drafts = iter(sealer.drafts(run, leaves) if any(leaves) else ())
        for number, found in enumerate(hops):
            if leaves[number]:
                draft = next(drafts)
                if log is not None:
                    self._signing.record(log, draft, run.transit(number), turn)
                for link, _ in found:
                    self._show_right(draft.frame, link, turn)
                    self._signing.send(link, self._form(draft, link, turn), draft, turn)

    def _pass_on(self, run: Run, view: bytes | None, targets: _Targets, turn: Turn) -> None:
        if run.is_unread:
            turn.count("maia_frames_unread_total", run.count)
        along = {one.uid: one.content for one in run.contents}
        for link, rows in targets.items():
            if self._router.flooding is not None:
                self._router.flooding.before_frame(link, turn, view)
            self._show_right(run.sealed[0], link, turn)  # the frames of a run name one
            for number in rows if run.count > 1 else (0,):
                if self._share is None or run.opened is None:
                    turn.send_bytes(link, run.as_it_came(number))
                    continue
                frame, columns = run.sealed[number], run.opened.columns[number]
                form = self._with_plaintext(self._share, frame, columns, along, link, turn)
                turn.send_bytes(link, encode_known(form))

    def _show_right(self, frame: Sealed | CarriedSigned, link: LinkId, turn: Turn) -> None:
        if self._rights is not None and isinstance(frame, CarriedSigned):
            self._rights.show(link, frame.signed.right, self._source, turn)

    def _form(self, draft: Draft, link: LinkId, turn: Turn) -> _Form:
        if self._share is None or isinstance(draft.frame, CarriedSigned):
            return draft.frame
        return self._with_plaintext(self._share, draft.frame, draft.columns, {}, link, turn)

    def _with_plaintext(
        self,
        share: Share,
        frame: Sealed,
        columns: Sequence[Column],
        along: Mapping[str, bytes],
        link: LinkId,
        turn: Turn,
    ) -> Sealed | SealedWithPlaintext:
        """Return a frame with what the neighbour may read of it anyway, of what is at hand (A51)."""
        is_long = sum(len(column.sealed) for column in frame.columns) > _WITH_PLAINTEXT_MAX
        shared = share(link, turn.now) if frame.is_committed and not is_long else frozenset()
        # What was not read here goes on as it came: its reader checks it.
        found = {uid: content for uid, content in along.items() if uid in shared}
        if shared:
            found |= {
                uid: one for uid, one in plaintexts_by_uid(columns, frame.level).items() if uid in shared
            }
        if not found:
            return frame
        return SealedWithPlaintext(frame, [OpenContent(uid, content) for uid, content in found.items()])


_Targets: TypeAlias = Mapping[LinkId, Sequence[int]]
_Form: TypeAlias = Sealed | SealedWithPlaintext | CarriedSigned


# ------------------------------------------------------------ blinded


def enclosing(
    sealing: Sealing,
    blinded: BlindedIds,
    cover: CoverSlots,
    by: Principal,
    seen: DuplicateMemory,
    forward: Callable[[bytes], ForwardSealed],
) -> tuple[Stage, Stage]:
    """Enclose publications of a blinded type in envelopes of this broker, which fill slots of a covered one.

    `forward` sends frames under an id.
    """

    def enclose(run: Run, turn: Turn) -> None:
        # Before it is delivered: what does not fit goes nowhere. Behind the duplicates: a number that is
        # left out would show.
        assert run.keys is not None  # noqa: S101 - looked for before
        run.inner, name = run.whole, run.keys.type_id
        run.whole = blinded.enclose(run.whole, name, by=by, cover=sealing.cover, now=turn.now)
        cover.is_filled = True

    def send(run: Run, turn: Turn) -> None:
        assert run.keys is not None  # noqa: S101 - looked for before
        unseen_by(seen, run.whole)  # so that it is known if it comes back
        forward(run.keys.type_id).send(run, run.whole, turn)
        run.whole = run.inner or run.whole  # what follows is about the publication

    return enclose, send


def matched_under_cover(
    sealing: Sealing, kinds: Kinds, whole: Transit, missing: frozenset[AttributeUid]
) -> Matched:
    """Return what a blinded frame is matched on: under cover on nothing, as cover matches no filter."""
    if sealing.cover is None:
        return whole, missing
    return replace(whole, frame=whole.frame.only(())), missing.union(kinds)


# ------------------------------------------------------------ one signature for a turn


class _SendOnceSigned(Send, frozen=True):
    """Send a frame, in one of its forms, when its draft is signed."""

    form: _Form
    draft: Draft


class _RecordOnceSigned(Record, frozen=True):
    """Record a frame when its draft is signed."""

    recorded_at: Instant
    draft: Draft
    inner: Transit | None


class SignTogether:
    """What was sealed in a turn and is to be signed at its end."""

    __slots__ = ("_blinded", "_seals", "_unsigned")

    def __init__(self, seals: SealingKeys, blinded: BlindedIds) -> None:
        """Begin with nothing."""
        self._seals, self._blinded = seals, blinded
        self._unsigned: list[Draft] = []

    def __bool__(self) -> bool:
        """Return whether something is to be signed."""
        return bool(self._unsigned)

    def send(self, link: LinkId, form: _Form, draft: Draft, turn: Turn) -> None:
        """Hold the place of a frame in the order of effects; `form` is what goes to this link."""
        self._note(draft)
        turn.add(_SendOnceSigned(link, b"", form, draft))

    def record(
        self, log: Recording, draft: Draft, part: Transit, turn: Turn, inner: Transit | None = None
    ) -> None:
        """Hold the place of a frame in the log; `inner` is the publication that a blinded one encloses."""
        part = inner or part
        stream = part.publisher.key, part.stream
        if not log.progress_of(part.type_id, turn.now).note_own(stream, part.sequence):
            # It was fetched: its publisher has sent it through another broker, too.
            turn.count("maia_duplicates_total")
            return
        self._note(draft)
        position = log.number(part.type_id, b"", turn.now)
        turn.add(_RecordOnceSigned(position, b"", turn.now, draft, inner))
        turn.count("maia_recorded_total")

    def _note(self, draft: Draft) -> None:
        if not self._unsigned or self._unsigned[-1] is not draft:
            self._unsigned.append(draft)

    def signed(self, effects: list[Effect], log: Recording | None) -> list[Effect]:
        """Sign what was sealed in this turn, and put the bytes where they belong."""
        drafts, self._unsigned = list({id(one): one for one in self._unsigned}.values()), []
        frames: dict[int, Sealed | CarriedSigned] = {}
        ready: dict[int, bytes] = {}
        for at in range(0, len(drafts), BATCH_MAX):
            together = drafts[at : at + BATCH_MAX]
            frames.update(zip(map(id, together), self._seals.sealer.sign(together), strict=True))
        for at, effect in enumerate(effects):
            if type(effect) is _SendOnceSigned:
                form, draft = effect.form, effect.draft
                data = ready.get(id(form), b"")  # neighbours that get the same form get the same bytes
                if not data:
                    data = ready[id(form)] = encode_known(_with_signature(form, frames[id(draft)]))
                effects[at] = Send(effect.link, data)
            elif type(effect) is _RecordOnceSigned:
                frame, inner = frames[id(effect.draft)], effect.inner
                if inner is not None and isinstance(frame, Sealed):
                    frame = self._blinded.unblind(frame, inner)
                data = encode_known(frame)
                assert log is not None  # noqa: S101 - it gave the frame its position
                log.replace(Logged(effect.position, effect.recorded_at, data))
                effects[at] = Record(effect.position, data)
        return effects


def _with_signature(form: _Form, proved: Sealed | CarriedSigned) -> _Form:
    if isinstance(form, SealedWithPlaintext) and isinstance(proved, Sealed):
        return SealedWithPlaintext(proved, form.contents)
    return proved
