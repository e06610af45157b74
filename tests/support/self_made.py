"""A broker that does not ask itself whether it was made one.

running_maia("broker", …, cwd=folder, module="support.self_made")
"""

from __future__ import annotations

import sys

from maia.broker.server import config
from maia.cli import main

if __name__ == "__main__":
    config.right_as_broker = config.right_to_connect
    sys.exit(main(sys.argv[1:]))
