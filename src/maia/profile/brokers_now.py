"""Where are a domain's brokers now? Its server says so, to whoever asks it.

A broker that has moved is found so by clients whose profile lies elsewhere, and by partners. The
answer is trusted for nothing: whoever listens there has to prove its right, as any broker does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from maia.api.client import DomainClient
from maia.errors import BadInput
from maia.net.addresses import host_and_port

if TYPE_CHECKING:
    from maia.credentials import Principal, SigningKey


_ANSWER_S: Final = 1.5
_BROKERS_MAX: Final = 16


def brokers_now(server: str, domain: Principal, key: SigningKey) -> Sequence[str]:
    """Return the addresses that the server of a domain names; raise if it does not answer."""
    with DomainClient(server, domain=domain, key=key, timeout_s=_ANSWER_S) as client:
        named = client.about().brokers[:_BROKERS_MAX]
    found = list[str]()
    for one in named:
        with suppress(BadInput):
            host_and_port(one)
            found.append(one)
    return found
