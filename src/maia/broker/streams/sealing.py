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
from itertools import compress
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec.structs import replace

from maia.broker.durable.recording import Recording
from maia.broker.publication.transit import Transit, without_proof
from maia.broker.refusals import FrameTooLarge, KeysAwaited, PublishedTooLongAgo, RequirementOnBlinded
from maia.broker.routing.router import Router
from maia.broker.sealed.answers import answers_of, with_answers
from maia.broker.sealed.blinded import BlindedIds, CoverSlots
from maia.broker.sealed.keys import KeyRequests, SealingKeys
from maia.broker.streams.publisher import Answer
from maia.broker.streams.run import END, Apart, Run, Turn, unseen_by
from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import AttributeUid, Instant, Kinds
from maia.routing.duplicates import DuplicateMemory
from maia.routing.table.hops import TypeId
from maia.sealing import BATCH_MAX, Draft, EpochKeys, KeyMissing, OpenedFrame, Publication, contents
from maia.sealing.frames.opened_frame import drafted_frame
from maia.sealing.frames.runs import seal_run
from maia.types import Sealing, SealingLevel
from maia.wire.codec import encode_known
from maia.wire.columns import EventsColumn, by_column
from maia.wire.effects import Count, Effect, LinkId, Logged, Record, Send
from maia.wire.messages import Column, OpenContent, Sealed, SealedWithPlaintext

SEALED_BYTES_MAX: Final = 12 << 20
"""A sealed frame is longer than what is in it, and has to fit into a message all the same."""
_WITH_PLAINTEXT_MAX: Final = 4 << 20
"""Bytes of ciphertext up to which plaintext goes along: a longer frame might not fit into one message."""
Matched: TypeAlias = tuple[Transit, frozenset[AttributeUid]]
"""What a frame is matched on, and the attributes of it that were not opened."""
_data_of: Final = attrgetter("data")


# ------------------------------------------------------------ keys


class AwaitKeys:
    """A publisher's frame waits for a key to seal it with, and that of a covered type for its slot."""

    __slots__ = ("_changed", "_cover", "_lack", "_sealing", "_seals", "_type_id")

    def __init__(
        self,
        type_id: bytes,
        sealing: Sealing,
        seals: SealingKeys,
        cover: CoverSlots,
        *,
        lack: Callable[[bytes, Instant], MaiaError | None],
        changed: Callable[[], None],
    ) -> None:
        """Hold frames of a type; `lack` says why no key is on its way."""
        self._type_id, self._sealing, self._seals, self._cover = type_id, sealing, seals, cover
        self._lack, self._changed = lack, changed

    def take(self, run: Run, turn: Turn) -> int | None:
        """Let a frame wait, if it has to."""
        message = run.published[0]
        waiting, stream, now = self._seals.publishing, (run.link.id, message.ref), turn.now
        if self._seals.has_begun(self._type_id, now) and not waiting.holds(self._type_id, stream):
            if self._sealing.cover is None or self._cover.taking == self._type_id:
                return None
            if len(run.numbers) > 1:
                raise Apart
            self._cover.wait(self._type_id, run.link.id, message)
            self._changed()
            return END
        if len(run.numbers) > 1:
            raise Apart
        lack = self._lack(self._type_id, now)
        if lack is not None:
            raise lack  # no key is on its way
        size = 256 + sum(len(column.data) for column in message.columns)
        held = run.link.id, message
        if not waiting.put(self._type_id, stream, held, size=size, until=waiting.until(now)):
            raise KeysAwaited(
                "the keys of this sealed type are not here yet, and too many frames wait for them"
            )
        self._changed()
        return END


class SealKeys:
    """The keys that a frame is sealed with; one that could not be sealed, or opened by any reader, ends."""

    __slots__ = ("_answer", "_blinded", "_keys", "_sealing", "_seals", "_type_id")

    def __init__(
        self,
        type_id: bytes,
        sealing: Sealing,
        seals: SealingKeys,
        blinded: BlindedIds,
        keys: KeyRequests,
        answer: Answer | None = None,
    ) -> None:
        """Find keys for frames of a type; without an `answer`, what is too old raises like all else."""
        self._type_id, self._sealing, self._seals, self._blinded = type_id, sealing, seals, blinded
        self._keys, self._answer = keys, answer

    def take(self, run: Run, turn: Turn) -> int | None:
        """Find the keys of the moment at which frames were published."""
        run.signer = self._seals.sealer.principal.key
        if self._sealing.blinded:
            if len(run.numbers) > 1:
                raise Apart
            if run.whole.requires:
                raise RequirementOnBlinded("a frame of a blinded type has no place for a requirement")
        if len(run.numbers) > 1:
            self._together(run, turn)
            return None
        try:
            run.keys = self.of(run.whole, run.columns[0], turn.now)
        except PublishedTooLongAgo as problem:
            if self._answer is None:
                raise
            turn.refuse(problem)
            message = run.published[0]
            return self._answer.end(message, message.rows, turn)
        return None

    def of(self, whole: Transit, columns: Iterable[Column], now: Instant) -> EpochKeys:
        """Return the keys for one frame."""
        keys = self._found(whole, whole.published_at, now)
        if sum(map(len, map(_data_of, columns))) > SEALED_BYTES_MAX:
            raise FrameTooLarge(f"a frame of a sealed type has at most {SEALED_BYTES_MAX} bytes")
        return keys

    def _together(self, run: Run, turn: Turn) -> None:
        if answers_of(self._seals, self._type_id):
            raise Apart
        if sum([sum(map(len, map(_data_of, one))) for one in run.columns]) > SEALED_BYTES_MAX:
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
            raise KeyMissing("this broker does not hold the key of the type's own group")
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
            raise KeyMissing(f"this broker does not hold the key of attribute `{lacking or '*'}`")
        return keys


# ------------------------------------------------------------ forms


class Sealer:
    """How this broker seals frames of one type."""

    __slots__ = ("_is_shared", "_level", "_seals")

    def __init__(self, seals: SealingKeys, level: SealingLevel, *, is_shared: bool) -> None:
        """Seal at a level; where plaintext `is_shared`, so that it can be compared with what was signed."""
        self._seals, self._level, self._is_shared = seals, level, is_shared

    def draft(self, transit: Transit, keys: EpochKeys) -> Draft:
        """Return a frame sealed, and not signed yet."""
        about = Publication(
            transit.publisher,
            transit.stream,
            transit.sequence,
            transit.published_at,
            transit.frame.rows,
            transit.kept,
            transit.frame.rows if self._is_shared else 0,
            without_proof(transit.author),  # it would show hashes of what is sealed
        )
        values = transit.frame.columns
        return self._seals.sealer.draft(transit.columns(), about, keys=keys, level=self._level, values=values)

    def answering(self, transit: Transit, keys: EpochKeys) -> Draft:
        """Return a publisher's frame sealed, with a column for each restriction that this broker answers."""
        return self.draft(with_answers(self._seals, transit, keys), keys)

    def drafts(self, run: Run, rows: Sequence[bool]) -> list[Draft]:
        """Return those single events of a run sealed that leave."""
        columns = by_column(run.columns)
        assert columns is not None and run.keys is not None  # noqa: S101, PT018 - they were read as one
        messages = run.messages
        if not all(rows):
            columns = [EventsColumn(uid, kind, list(compress(data, rows))) for uid, kind, data in columns]
            messages = list(compress(messages, rows))
        labels = [one.sequence for one in messages], [one.published_at for one in messages]
        about = Publication(run.whole.publisher, run.whole.stream, 0, 0, 1)
        return seal_run(self._seals.sealer, labels, columns, about, keys=run.keys, level=self._level)


class ForwardSealed:
    """Neighbours behind which rows of a sealed type are wanted; a frame that goes nowhere is not sealed."""

    __slots__ = ("_key", "_log", "_match", "_router", "_sealer", "_share", "_signed", "_source")

    def __init__(  # noqa: PLR0913 - most are named at the call
        self,
        key: TypeId,
        source: LinkId | None,
        *,
        router: Router,
        signed: SignTogether,
        sealer: Sealer | None = None,
        share: Callable[[LinkId, Instant], frozenset[str]] | None = None,
        log: Recording | None = None,
        match: Callable[[Transit, frozenset[AttributeUid]], Matched] | None = None,
    ) -> None:
        """Send what a `sealer` seals of publishers here, or what came from a `source`.

        `share` says what a neighbour may read anyway, where plaintext goes along; `log` has what is sealed
        here. Of a blinded type, `match` says on what a frame is matched, and no frame is cut.
        """
        self._key, self._source, self._router, self._signed = key, source, router, signed
        self._sealer, self._share, self._log, self._match = sealer, share, log, match

    def take(self, run: Run, turn: Turn) -> None:
        """Send each neighbour a frame of which a row is wanted behind it."""
        self.send(run, run.whole, turn)

    def send(self, run: Run, whole: Transit, turn: Turn) -> None:
        """Send frames whose rows are those of `whole`."""
        matched, missing = (whole, run.missing) if self._match is None else self._match(whole, run.missing)
        targets = self._router.targets(
            self._key, matched, source=self._source, missing=missing, signer=run.signer
        )
        if self._sealer is None:
            self._pass_on(run, targets, turn)
        elif len(run.numbers) > 1:
            self._seal_each(run, targets, turn)
        else:
            self._seal(run, whole, targets, turn)

    def _seal(self, run: Run, whole: Transit, targets: Mapping[LinkId, Sequence[int]], turn: Turn) -> None:
        sealer, drafts = self._sealer, dict[tuple[int, ...], Draft]()
        assert sealer is not None and run.keys is not None  # noqa: S101, PT018 - asked before
        is_blinded = self._match is not None
        seal = sealer.draft if is_blinded else sealer.answering
        if self._log is not None and (run.inner is not None or not is_blinded):  # cover is not recorded
            drafts[()] = seal(whole, run.keys)
            self._signed.record(self._log, drafts[()], whole, turn, run.inner)
        for link, rows in targets.items():
            part = () if is_blinded or len(rows) == whole.frame.rows else tuple(rows)
            draft = drafts.get(part)
            if draft is None:
                draft = drafts[part] = seal(whole.cut(rows) if part else whole, run.keys)
            turn.effects += self._router.before_frame(link)
            form: Sealed | SealedWithPlaintext = draft.frame
            if self._share is not None:
                form = self._with_plaintext(drafted_frame(draft), {}, link, turn)
            self._signed.send(link, form, draft, turn)

    def _seal_each(self, run: Run, targets: Mapping[LinkId, Sequence[int]], turn: Turn) -> None:
        sealer, hops = self._sealer, run.by_frame(targets)
        assert sealer is not None  # noqa: S101 - asked before
        leaves = [self._log is not None or bool(one) for one in hops]
        if not any(leaves):
            return
        drafts = iter(sealer.drafts(run, leaves))
        for number, found in enumerate(hops):
            if not leaves[number]:
                continue
            draft = next(drafts)
            if self._log is not None:
                self._signed.record(self._log, draft, run.transit(number), turn)
            for link, _ in found:
                self._signed.send(link, draft.frame, draft, turn)

    def _pass_on(self, run: Run, targets: Mapping[LinkId, Sequence[int]], turn: Turn) -> None:
        if run.is_unread:
            for _ in run.numbers:
                turn.count("maia_frames_unread_total")
        along = {one.uid: one.content for one in run.contents}
        for link, rows in targets.items():
            turn.effects += self._router.before_frame(link)
            if self._share is not None and run.opened is not None:
                form = self._with_plaintext(run.opened, along, link, turn)
                turn.send(link, encode_known(form))
                continue
            for number in rows if len(run.numbers) > 1 else (0,):
                turn.send(link, run.as_it_came(number))

    def _with_plaintext(
        self, opened: OpenedFrame, along: Mapping[str, bytes], link: LinkId, turn: Turn
    ) -> Sealed | SealedWithPlaintext:
        """Return a frame with what the neighbour may read of it anyway, of what is at hand (A51)."""
        frame, at_hand = opened.frame, opened.parts.keys() | along.keys()
        too_long = sum(len(column.sealed) for column in frame.columns) > _WITH_PLAINTEXT_MAX
        assert self._share is not None  # noqa: S101 - asked before
        if not at_hand or not frame.block_rows or too_long:
            return frame
        shared = self._share(link, turn.now) & at_hand
        if not shared:
            return frame
        # What was not read here goes on as it came: its reader checks it.
        found = {uid: content for uid, content in along.items() if uid in shared}
        found.update(contents(opened, shared))
        return SealedWithPlaintext(frame, [OpenContent(uid, content) for uid, content in found.items()])


# ------------------------------------------------------------ blinded


class Enclose:
    """A publication of a blinded type leaves in an envelope, which fills a slot if the type is covered."""

    __slots__ = ("_blinded", "_by", "_cover", "_sealing", "_seen", "_send", "_type_id")

    def __init__(
        self,
        type_id: bytes,
        sealing: Sealing,
        blinded: BlindedIds,
        cover: CoverSlots,
        *,
        by: Principal,
        seen: DuplicateMemory,
        send: Callable[[bytes, Run, Transit, Turn], None],
    ) -> None:
        """Enclose frames; `send` sends a frame under the id that it names, matched on what it is handed."""
        self._type_id, self._sealing, self._blinded, self._cover = type_id, sealing, blinded, cover
        self._by, self._seen, self._send = by, seen, send

    def take(self, run: Run, turn: Turn) -> None:
        """Enclose a frame before it is delivered: what does not fit goes nowhere.

        It is behind the duplicates: a number that is left out would show.
        """
        assert run.keys is not None  # noqa: S101 - asked before
        run.inner, now = run.whole, turn.now
        name, cover = run.keys.type_id, self._sealing.cover
        run.whole = self._blinded.enclose(run.whole, name, by=self._by, cover=cover, now=now)
        self._cover.is_filled = True

    def send(self, run: Run, turn: Turn) -> None:
        """Send what was enclosed, or cover."""
        unseen_by(self._seen, run.whole)  # so that it is known if it comes back
        assert run.keys is not None  # noqa: S101 - asked before
        self._send(run.keys.type_id, run, run.whole, turn)
        run.whole = run.inner or run.whole  # what follows is about the publication


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

    form: Sealed | SealedWithPlaintext
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
        """Say whether something is to be signed."""
        return bool(self._unsigned)

    def send(self, link: LinkId, form: Sealed | SealedWithPlaintext, draft: Draft, turn: Turn) -> None:
        """Hold the place of a frame in the order of effects; `form` is what goes to this link."""
        self._note(draft)
        turn.effects.append(_SendOnceSigned(link, b"", form, draft))

    def record(
        self, log: Recording, draft: Draft, part: Transit, turn: Turn, inner: Transit | None = None
    ) -> None:
        """Hold the place of a frame in the log; `inner` is the publication that a blinded one encloses."""
        self._note(draft)
        part = inner or part
        stream = part.publisher.key, part.stream, b"" if inner is not None else draft.frame.signer
        log.progress_of(part.type_id, turn.now).note_numbers(stream, part.sequence)
        position = log.number(part.type_id, b"", turn.now)
        turn.effects.append(_RecordOnceSigned(position, b"", turn.now, draft, inner))
        turn.effects.append(Count("maia_recorded_total"))

    def _note(self, draft: Draft) -> None:
        if not self._unsigned or self._unsigned[-1] is not draft:
            self._unsigned.append(draft)

    def signed(self, effects: list[Effect], log: Recording | None) -> list[Effect]:
        """Sign what was sealed in this turn, and put the bytes where they belong."""
        drafts, self._unsigned = list({id(one): one for one in self._unsigned}.values()), []
        frames: dict[int, Sealed] = {}
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
                data = encode_known(frame if inner is None else self._blinded.unblind(frame, inner))
                assert log is not None  # noqa: S101 - it gave the frame its position
                log.replace(Logged(effect.position, effect.recorded_at, data))
                effects[at] = Record(effect.position, data)
        return effects


def _with_signature(form: Sealed | SealedWithPlaintext, proved: Sealed) -> Sealed | SealedWithPlaintext:
    return SealedWithPlaintext(proved, form.contents) if isinstance(form, SealedWithPlaintext) else proved
