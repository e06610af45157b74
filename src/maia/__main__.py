"""`python -m maia` is `maia`."""

from maia.cli.main import main

raise SystemExit(main())
