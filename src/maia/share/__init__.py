"""A server for Delta Sharing: recipients read governed tables without Maia, each under one right.

`maia share serve` runs it (`process.py`), `maia share add` makes a recipient. docs/sharing.md is for users,
docs/decisions/sharing.md says why it is built this way.
"""
