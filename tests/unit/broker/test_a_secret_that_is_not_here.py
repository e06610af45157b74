"""A right that shows a pseudonym, at a broker without its issuer's secret: the subscriber is warned."""

from __future__ import annotations

import pytest

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    SigningKey,
    Transformation,
    TypePattern,
    exact_name,
    issue,
)
from maia.events import Kind
from maia.expressions import TransformationKeys
from maia.expressions.syntax import Call, Function, Rule, Scope, Take
from maia.wire.messages import Warned
from support.numberplate import NUMBERPLATE, Net, sighting


@pytest.mark.parametrize("has_secret", [False, True])
def test_a_subscriber_is_told_which_value_its_broker_cannot_compute(has_secret: bool) -> None:
    net = Net()
    story, key = net.cast, SigningKey.from_seed(b"auditor".ljust(32, b"."))
    ccs = story.principal("CCS")
    net.broker(transformation_keys=TransformationKeys({ccs.key: bytes(32)} if has_secret else {}))
    made = Call(Function.PSEUDONYM, Take(NUMBERPLATE, Kind.STRING), (Scope.RECIPIENT.value,))
    step = Transformation(ccs, (Rule(NUMBERPLATE, made),))
    name = story.type_name
    about = TypePattern(name.owner, exact_name(name.name), None)
    authority = Authority(about, frozenset({Action.SUBSCRIBE}), transformations=(step,))
    validity = story.certificates[0].certificate.validity
    right = AuthorisationCertificate(ccs, key.principal, False, authority, validity)
    shown = (*story.certificates, story.connect_right(key.principal), issue(right, story.keys["CCS"]))
    auditor = net.client("auditor", key=key, credentials=shown)
    auditor.subscribe()
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("AE05 XYZ"))
    (event,) = auditor.events()
    assert (event.get(NUMBERPLATE) is None) is not has_secret
    told = auditor.all_heard(Warned)
    assert [one.code for one in told] == ([] if has_secret else ["UNAVAILABLE-NO-SECRET"])
    why = f"`numberplate` is null at this broker, which has no secret or table of `{ccs}`"
    assert all(one.message.startswith(why) for one in told)
