"""A broker that lets its publishers say whatever they like, and signs it.

running_maia("broker", …, cwd=folder, module="support.careless")
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from maia.broker.interests.named_rights import NamedRights
from maia.broker.rights.publisher_view import Shaped, Shaper
from maia.cli import main
from maia.events import Frame


def _as_given(_: Shaper, frame: Frame) -> Shaped:
    return Shaped(frame, range(frame.rows), refused=0)


def _not_asked(*_: object) -> None: ...


CARELESS: Final[tuple[tuple[type, str, Callable[..., Any]], ...]] = (
    (Shaper, "shape", _as_given),
    (NamedRights, "check_own", _not_asked),
)
"""Where a broker asks what its own publishers, and it itself, may say, and what answers there."""


if __name__ == "__main__":
    for owner, name, careless in CARELESS:
        setattr(owner, name, careless)
    sys.exit(main(sys.argv[1:]))
