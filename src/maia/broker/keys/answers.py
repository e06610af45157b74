"""Which restrictions on hidden attributes does this broker answer, and which answers does it ask?

At a publisher's broker a sealed frame gets a column for each answer whose key is held: there all of the
frame is known. At a subscriber's broker what restricts a View by attributes that this broker must not read
is asked of the answers in the frame; without them the View shows nothing. `maia.policy.answers` says what
an answer means, the key server of the type who has its key (docs/decisions/hidden-restrictions.md).
"""

from __future__ import annotations

from maia.broker.keys.keys import SealingKeys
from maia.broker.links.transit import Transit
from maia.events import AttributeUid, Column, Frame, Kind
from maia.policy.answers import Answers, answers_to, asked_about
from maia.predicates import attributes_of
from maia.sealing import EpochKeys


def answers_of(seals: SealingKeys, type_id: bytes) -> Answers:
    """Return the answers of a type that this broker gives or reads."""
    ring = seals.ring_of(type_id)
    return {} if ring is None else ring.answers


def with_answers(seals: SealingKeys, transit: Transit, keys: EpochKeys) -> Transit:
    """Return a publisher's frame with a column for each restriction that this broker answers."""
    answers = answers_of(seals, transit.type_id)
    given = [uid for uid in answers if None not in keys.ciphers((uid,), seals.sealer.instance)]
    if not given:
        return transit
    frame = transit.frame
    made = answers_to(frame, {uid: answers[uid] for uid in given})
    columns = {uid: Column(Kind.BOOL, values) for uid, values in made.items()}
    return Transit(
        transit.type_id,
        transit.publisher,
        transit.stream,
        transit.sequence,
        transit.published_at,
        Frame(frame.rows, {**frame.columns, **columns}),
        transit.kept,
        transit.written,
        transit.author,
    )


def spoken_of(seals: SealingKeys, type_id: bytes, uids: frozenset[AttributeUid]) -> frozenset[AttributeUid]:
    """Return all that the signer of a frame with these columns says something of, by its answers too."""
    answers = answers_of(seals, type_id)
    return asked_about(uids, answers) if answers else uids


def readers_of(seals: SealingKeys, type_id: bytes, named: frozenset[AttributeUid]) -> frozenset[AttributeUid]:
    """Return whose readers may see what is said of `named`: where a key is missing, those of the answer.

    The readers of an answer are those who may read all that its restriction asks about, and those who
    are restricted by it and know it.
    """
    ring = seals.ring_of(type_id)
    hidden = frozenset[AttributeUid]() if ring is None else named - ring.readable
    if ring is None or not hidden:
        return named
    asked = {uid: attributes_of(said) for uid, said in ring.answers.items() if uid in ring.readable}
    used = {uid: about for uid, about in asked.items() if not about.isdisjoint(hidden)}
    return (named - hidden).union(used) if hidden <= frozenset().union(*used.values()) else named
