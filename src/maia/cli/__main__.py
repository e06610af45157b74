"""`python -m maia.cli` is `maia`."""

from maia.cli.main import main

raise SystemExit(main())
