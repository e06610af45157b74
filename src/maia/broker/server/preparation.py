"""Can a broker run with this configuration?

Keys, certificates and folders are opened and checked before any port is, so
that `maia broker --check` and a start fail for the same reasons. What is
wrong is reported at the line that named it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from maia.broker.server.config import BrokerConfig
from maia.broker.settings import BrokerSettings, RecordingSettings
from maia.config.bounds_file import read_bounds
from maia.config.constitutions import Quorums, constitutions_of, read_quorums, remembered_in
from maia.config.input_files import read_certificates, read_owner
from maia.config.start_checks import check_folder, opened, right_to_connect
from maia.config.type_folder import TypeFolder
from maia.credentials import NetworkName, Owner, SignedCertificate, SigningKey
from maia.events import Instant
from maia.policy import BoundRule
from maia.types import SignedDefinition, definition_to_bytes

__all__ = ["PreparedBroker", "prepare"]


@dataclass(frozen=True, slots=True)
class PreparedBroker:
    """Everything that a broker needs, opened and checked; only `prepare` makes one."""

    config: BrokerConfig
    key: SigningKey = field(repr=False)
    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    definitions: tuple[SignedDefinition, ...] = field(repr=False)
    may_connect_until: Instant | None
    quorums: Quorums = field(default_factory=dict, repr=False)
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)

    def settings(self, address: str) -> BrokerSettings:
        """Return what the broker is told, once it is known where it listens."""
        config = self.config
        return BrokerSettings(
            network=self.network,
            address=config.address or address,
            credentials=self.credentials,
            seeds=tuple(one for one in config.join if one != address),
            lease_s=config.lease_s,
            skew_s=config.skew_s,
            verify_in_transit=config.verify_in_transit,
            key_managers=config.keys,
            share_plaintext=config.share_plaintext,
            require_install=config.require_install,
            recording=self._recording(),
            limits=config.limits,
            bounds=self.bounds,
            constitutions=constitutions_of(self.quorums),
        )

    def _recording(self) -> RecordingSettings | None:
        config = self.config
        if config.log_folder is None:
            return None
        chosen = None if config.log_types == ("*",) else frozenset(config.log_types)
        return RecordingSettings(chosen, config.log_durable)

    def types_to_keep(self) -> dict[str, bytes]:
        """Return the folder's definitions in the form in which a broker keeps those it has verified."""
        from maia.broker.access.known_types import KEPT_TYPE

        return {f"{KEPT_TYPE}{one.id.hex()}": definition_to_bytes(one) for one in self.definitions}


def prepare(config: BrokerConfig, *, now: Instant, open_key: Callable[[Path], SigningKey]) -> PreparedBroker:
    """Open and check whatever the configuration names; raise at the first thing that is wrong."""
    key = opened(config, "key", lambda: open_key(config.key))
    coordinator: Owner = opened(config, "coordinator", lambda: read_owner(config.coordinator))
    network = opened(config, "network", lambda: NetworkName(coordinator, config.network))
    credentials = tuple(opened(config, "credentials", lambda: read_certificates(config.credentials)))
    if config.data is not None:
        check_folder(config, "data", config.data)
    shown = (*config.credentials, *remembered_in(config.data))
    quorums = opened(config, "credentials", lambda: read_quorums(shown))
    bounds = opened(config, "bounds", lambda: read_bounds(config.bounds))
    until = right_to_connect(config, key, network, credentials, now, constitutions_of(quorums))
    definitions: tuple[SignedDefinition, ...] = ()
    if config.types is not None:
        definitions = opened(config, "types", TypeFolder(config.types).definitions)
    _check_log(config)
    return PreparedBroker(
        config, key, network, credentials, definitions, until, quorums=quorums, bounds=bounds
    )


def _check_log(config: BrokerConfig) -> None:
    """Make the event log's folder if need be; what is in it is looked at when it is opened."""
    if config.log_folder is None:
        said = [name for name in config.origins if name.startswith("log.")]
        if said:
            raise config.wrong(said[0], "says how to record, and `log.folder` does not say where")
        return
    if config.data is None:
        raise config.wrong(
            "log.folder", "needs `data` too: a broker that forgets what it has seen would record it twice"
        )
    check_folder(config, "log.folder", config.log_folder)
