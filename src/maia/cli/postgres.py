"""`maia postgres`: a PostgreSQL database as a participant."""

from __future__ import annotations

import typer

from maia.cli import postgres_views

__all__ = ["app"]

app = typer.Typer(
    help="Connect a PostgreSQL database: show its tables through Views.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(postgres_views.app, name="views")
