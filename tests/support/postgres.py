"""A real PostgreSQL server for the whole suite, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from maia.testing.postgres_server import (
    make_cluster,
    ownership,
    packaged_binaries,
    postgres_binaries,
    reachable,
    running_server,
    server_command,
    stop,
    unprivileged_user,
    wait_for,
)

__all__ = [
    "make_cluster",
    "ownership",
    "packaged_binaries",
    "postgres",
    "postgres_binaries",
    "postgres_server",
    "reachable",
    "running_server",
    "server_command",
    "stop",
    "unprivileged_user",
    "wait_for",
]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The connection string of a fresh server."""
    with running_server(postgres_binaries()) as address:
        yield address


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[psycopg.Connection]:
    """A connection whose changes are rolled back when the test ends."""
    with psycopg.connect(postgres_server) as connection:
        yield connection
        connection.rollback()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever uses the server, so that `-m "not postgres"` leaves out all of it."""
    for item in items:
        if {"postgres", "postgres_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.postgres)
