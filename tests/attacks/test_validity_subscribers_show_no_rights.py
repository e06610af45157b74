"""What does a broker give away when it asks for the streams on which issuers say what is revoked?"""

from __future__ import annotations

from maia.credentials import Action, TestKind
from maia.testing import Issuer
from maia.types import validity_type_id
from maia.wire.messages import Interest
from support.numberplate import NUMBERPLATE, TIMESTAMP, Net


def test_an_interest_in_a_validity_stream_names_no_other_type_on_its_way() -> None:
    """A52: a broker on the way may know of no type; such an interest needs no certificate, and shows none."""
    net = Net()
    net.broker("PITO broker")
    net.broker("CCS broker", seeds=["PITO broker"])
    net.broker("Met broker", seeds=["PITO broker"])
    net.advance(5)
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    office = net.cast.principal("billing office")
    right = net.cast.grant(
        "CCS",
        office,
        net.cast.definition,
        Action.SUBSCRIBE,
        attributes=frozenset({NUMBERPLATE, TIMESTAMP}),
        test=TestKind.TIMED_CRL,
    )
    standing = [net.cast.issued("CCS to billing office", Action.SUBSCRIBE)]
    pool = (*(one for one in net.cast.certificates if one not in standing), right)
    client = net.client("billing office", "Met broker", credentials=pool)
    client.subscribe()
    net.advance(5)
    stream = validity_type_id(issuer.key.principal)
    asked = [
        wanted
        for sender, _, one in net.carried
        if sender == "Met broker" and isinstance(one, Interest) and one.key == stream
        for wanted in one.add
    ]
    assert asked, "nobody asked for the stream"
    assert all(wanted.proof is not None and not wanted.credentials for wanted in asked)
