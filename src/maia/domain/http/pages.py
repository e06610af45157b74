"""Which pages does a domain's HTTP interface have, and what does each of them do?

Whoever changes something must show that the domain lets them: PUBLISH on an
`/admin/…` topic of the domain's key; whoever reads about others, SUBSCRIBE.
Everybody may ask for its own roles and rights. Answers that tell about
somebody's rights are given to that principal and to those who may read the
register, and to nobody else.
"""

from __future__ import annotations

from maia.domain.http.pages_domain import DomainPages
from maia.domain.http.pages_register import RegisterPages
from maia.domain.http.pages_rights import RightsPages

__all__ = ["Pages"]


class Pages(DomainPages, RightsPages, RegisterPages):
    """The pages over one domain service."""
