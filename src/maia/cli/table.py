"""Which commands are there, in which group, and where is each?

Their lines are here, and not taken from the commands, so that neither help nor
the completion of a first word loads any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GROUPS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Begin": {
        "demo": ("demo.demo", "Play a story on a real network, and look around in it."),
        "org": ("organisation.org_app", "Make an organisation, and join the network of another one."),
        "network": (
            "network.app",
            "Invite organisations into the network, join one, leave it, show who is in it.",
        ),
        "member": ("organisation.member_app", "Add members to an organisation, and list them."),
        "type": ("event_types.types.app", "Define event types, change, verify and compare them."),
        "grant": ("organisation.grant", "Grant rights to another organisation, in one file."),
        "revoke": ("organisation.revoke", "Revoke a grant, a certificate or a member's rights."),
        "renew": ("organisation.renew", "Renew what ends soon."),
        "up": ("organisation.up", "Run the servers of an organisation."),
    },
    "Take part": {
        "publish": ("participate.publish.publish", "Publish events from options or standard input."),
        "subscribe": ("participate.subscribe.subscribe", "Print events as they arrive."),
        "explain": ("participate.explain.explain", "Say why something is permitted, or why not."),
        "profile": ("organisation.profile_app", "Show a participant's profile, and choose one."),
        "login": ("participate.login.login", "Fetch the certificates that your roles give you."),
        "topic": ("event_types.topics.app", "Declare topics."),
        "filter": ("event_types.filters.app", "Check, compare and merge filters."),
    },
    "Run servers": {
        "broker": ("servers.broker.app", "Run a broker, or make one more for an organisation."),
        "domain": ("domain.commands.app", "Run a domain's server, and call one that runs."),
        "gateway": ("servers.gateway.app", "Let clients of other protocols take part."),
        "console": ("console.app", "Look at a network and its rights in a browser."),
        "share": ("share.app", "Share tables of a log with others, who read them by Delta Sharing."),
        "postgres": ("postgres.app", "Connect a PostgreSQL database to a broker."),
        "status": ("servers.status.status", "Show what is connected to a broker on this machine."),
        "log": ("servers.log.app", "Look at an event log, verify it, and roll it."),
    },
    "Analyse": {
        "pipeline": ("pipeline.commands.app", "Run applications over events, in Spark."),
        "ledger": ("pipeline.ledger.app", "Read and verify a broker's ledger of deliveries."),
        "bench": ("benchmarks.bench", "Compare Maia with its peers, or with itself."),
    },
    "Keys and certificates": {
        "key": ("trust.key.app", "Make keys, and know others' by name."),
        "cert": ("trust.cert.app", "Issue, show, verify, find and revoke certificates."),
        "quorum": ("trust.quorum.app", "Found quorums: k of n keys that own together."),
        "tpm": ("trust.tpm.app", "Prove with a TPM how a machine has booted."),
    },
}
"""Every command, in the order in which people meet them: where it is below `maia.cli`, and what it does.

It is a function, or an app with commands of its own.
"""

COMMANDS: Final[Mapping[str, str]] = {
    name: place for group in GROUPS.values() for name, (place, _) in group.items()
}
LINES: Final[Mapping[str, str]] = {
    name: line for group in GROUPS.values() for name, (_, line) in group.items()
}
