"""A broker is not moved to where another process listens."""

from __future__ import annotations

import socket

import pytest

from maia.organisation import Organisation
from maia.testing.refusals import raises


def test_a_port_at_which_another_process_listens_is_refused_and_moves_nothing(tmp_path):
    ours = Organisation.create(tmp_path / "hospital")
    before = ours.addresses
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with raises("UNAVAILABLE-ADDRESS", match="another process listens there"):
            ours.move_broker(taken)
        assert Organisation(ours.folder).addresses == before
    ours.move_broker(taken)
    assert Organisation(ours.folder).addresses["broker"] == taken


def test_its_own_broker_may_be_listening_there(tmp_path):
    ours = Organisation.create(tmp_path / "hospital")
    host, _, port = ours.addresses["broker"].rpartition(":")
    with socket.create_server((host, int(port))):
        ours.move_broker(f"{host}:{port}", address=f"localhost:{port}")
        ours.move_broker(f"{host}:{port}")
    assert ours.addresses["broker"] == f"{host}:{port}"


@pytest.mark.parametrize("elsewhere", ["192.0.2.7:7400", "broker.hospital.example:7400"])
def test_of_another_machine_nothing_is_known(tmp_path, elsewhere):
    ours = Organisation.create(tmp_path / "hospital")
    ours.move_broker(elsewhere)
    assert ours.addresses["broker"] == elsewhere
