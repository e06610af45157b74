"""A broker that says of every condition of its readers' rules that it does not hold.

running_maia("broker", …, cwd=folder, module="support.denying")
"""

from __future__ import annotations

import sys

from maia.cli import main
from maia.policy.facts import Facts
from maia.predicates import NEVER, Predicate


def _no(*_: object, **__: object) -> Predicate:
    return NEVER


if __name__ == "__main__":
    Facts.resolved = _no  # type: ignore[method-assign]
    sys.exit(main(sys.argv[1:]))
