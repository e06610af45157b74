"""The suite's PostgreSQL comes from the machine or from a package, and both serve."""

from __future__ import annotations

import psycopg

from support.postgres import packaged_binaries, running_server


def test_the_packaged_postgresql_serves_where_the_machine_has_none():
    with running_server(packaged_binaries()) as address, psycopg.connect(address) as connection:
        assert connection.execute("SELECT 6 * 7, current_setting('server_encoding')").fetchone() == (
            42,
            "UTF8",
        )
