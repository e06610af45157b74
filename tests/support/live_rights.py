"""Variations on the rights of the numberplate story."""

from __future__ import annotations

from dataclasses import replace

from maia.credentials import (
    Action,
)
from maia.predicates import parse_predicate
from maia.testing import Cast, grant
from support.live import STORY


def story_with_a_choosy_camera() -> Cast:
    """Let the camera publish plates that begin with `AE`, and no others."""
    definition = STORY.definition.definition
    name = definition.name
    camera, owner = STORY.principal("camera at Victoria"), STORY.keys["PITO"]
    others = tuple(
        signed
        for signed in STORY.certificates
        if not (
            signed.certificate.subject == camera
            and Action.PUBLISH in getattr(signed.certificate.authority, "actions", ())
        )
    )
    return replace(
        STORY,
        certificates=(
            *others,
            grant(
                owner,
                camera,
                name,
                Action.PUBLISH,
                attributes=frozenset(attribute.uid for attribute in definition.attributes),
                restriction=parse_predicate('prefix(numberplate, "AE")', definition.vocabulary),
                validity=STORY.certificates[0].certificate.validity,
                comment="PITO to camera, plates of one region",
            ),
        ),
    )
