"""What does the key server answer to a reader of the past?

The keys of epochs that are over, for which the reader's certificates were
good at every moment of the epoch, and the certificates of those who published
meanwhile, sealed to the reader's session. Types whose owner does not want old
keys to be kept have no past (`history` in the settings).
"""

from __future__ import annotations

from collections.abc import Callable

from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import Instant
from maia.sealing.groups.group_id import GroupId
from maia.sealing.groups.manager import GroupManager
from maia.sealing.groups.membership import Claim, standing
from maia.sealing.keys.delivery import seal_to
from maia.sealing.keys.history import PastAnswer, pack_past, past_info
from maia.wire.messages import HistoryKeys, HistoryKeysReply

__all__ = ["history_reply"]


def history_reply(
    manager: GroupManager,
    message: HistoryKeys,
    claim: Claim,
    *,
    by: Principal,
    now: Instant,
    random: Callable[[int], bytes],
    missing: MaiaError | None = None,
) -> HistoryKeysReply:
    """Decide which keys a reader may have, and seal them to the key that it has shown.

    If there is nothing to tell, and one-time answers are `missing`, that is why.
    """
    since, until = Instant(message.since), Instant(message.until)
    epochs, after = manager.past(claim, since=since, until=until, after=message.after, now=now)
    # Who publishes is told to whoever may read anything of the type, as it is to members.
    reads = bool(epochs) or GroupId(manager.type_id) in standing(claim, manager.grounds, now).groups
    if missing is not None and not reads:
        raise missing
    writers = manager.past_writers(now) if reads and not message.after else {}
    info = past_info(manager.type_id, manager=by, reader=claim.principal)
    sealed = seal_to(message.key, pack_past(PastAnswer(epochs, writers)), info, random)
    told = manager.terms.as_record()
    return HistoryKeysReply(message.id, manager.type_id, told, sealed, after)
