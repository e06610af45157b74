"""What may a publisher write?

One chain counts for a publisher. Rights of several chains do not add up here:
two chains that force different values would leave it open which value an
event carries (docs/decisions/views.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet
from maia.policy.grants import Miss, Step
from maia.policy.openings import Opening, common_attributes, conjoined, kinds_of
from maia.policy.reasons import Reason, for_owner
from maia.policy.refusals import GrantUnmeetable
from maia.policy.request import Request
from maia.policy.restrictions import forced_values, unmeetable
from maia.policy.super_topics import with_super_topics
from maia.policy.view import View, Window
from maia.types.topics import TOPIC, tree_root

__all__ = ["publisher_view", "unmeetable_miss"]


def publisher_view(request: Request, openings: Sequence[Opening]) -> View:
    """Return the View of one window in which every opening holds.

    There is one opening for a type, and one for each level of a topic, whose
    restrictions all apply (dissertation 5.5). Where the type is a tree of topics,
    the restriction has to hold on each of its levels.
    """
    attributes: AttributeSet = ALL_ATTRIBUTES
    for opening in openings:
        attributes = common_attributes(attributes, opening.window.attributes)
    admits = conjoined(opening.window.admits for opening in openings)
    if (root := _tree_of(request)) is not None:
        admits = with_super_topics(admits, TOPIC.uid, root)
    restriction = conjoined(opening.grant.authority.restriction for opening in openings)
    return View((Window(admits, attributes),), forced=forced_values(restriction))


def unmeetable_miss(request: Request, openings: Sequence[Opening]) -> Miss | None:
    """Say why no event of this publisher could ever pass, if that is known beforehand."""
    (window,) = publisher_view(request, openings).windows
    found = unmeetable(window.admits, writable=_writable(request, window), kinds=kinds_of(request))
    if found is None:
        return None
    last = openings[-1].grant.certificates
    owner = Reason(
        "restriction", found.why, last[-1].id if last else None, "authority.restriction", found.attribute
    )
    sentence = "no event that you may write can satisfy your certificates"
    if _tree_of(request) is not None:
        sentence += ": publishing on a topic needs the right on every topic above it"
    requester = Reason("restriction", sentence)
    return Miss(Step.RESTRICTION, GrantUnmeetable, for_owner(owner, instead=requester))


def _tree_of(request: Request) -> str | None:
    return None if request.event_type is None else tree_root(request.event_type.name.name)


def _writable(request: Request, window: Window) -> AttributeSet:
    if request.event_type is None:
        return window.attributes
    return common_attributes(window.attributes, frozenset(request.event_type.kinds))
