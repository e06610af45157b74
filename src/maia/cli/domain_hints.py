"""What can a user do after a refusal by a domain?

The sentence of an error says what is wrong. For codes that have one usual
cause, a hint beside it says where to look; it names commands and options, so
only the command line gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["HINTS"]

_RESTS_ON: Final = "appointments are shown with `--show`, and facts said with `maia domain fact assert`"
_CLOCKS: Final = "compare the clock of this machine with that of the domain's server"

HINTS: Final[Mapping[str, str]] = {
    "UNAVAILABLE-DOMAIN": "is `maia domain serve` running, and is this what it says after `answering at`?",
    "CREDENTIAL-ANOTHER-DOMAIN": "`--server` leads to one domain and `--domain` names another",
    "POLICY-NO-CHAIN": "`--credentials` shows certificates, and they must have been issued to your `--key`",
    "POLICY-EXPIRED": "ask its issuer for a new one, and show that with `--credentials`",
    "POLICY-REVOKED": "`maia domain audit show` tells another administrator when, by whom and why",
    "INPUT-UNKNOWN-CERTIFICATE": "`maia domain register` and `maia domain appointments` show the ids; "
    "`maia cert revoke FILE` takes what the domain's key signed elsewhere",
    "INPUT-UNKNOWN-MEMBERSHIP": "its id is in the answer of `maia domain activate`",
    "INPUT-UNKNOWN-ROLE": "`maia domain policy show` shows the roles and their parameters",
    "INPUT-UNKNOWN-FACT": "`maia domain policy show` shows the facts and their parameters",
    "INPUT-UNKNOWN-APPOINTMENT": "`maia domain policy show` shows them; the domain's own are `by here`",
    "REFUSED-ACTIVATION": _RESTS_ON,
    "REFUSED-LOGIN": _RESTS_ON,
    "REFUSED-NO-IDENTITY-PROVIDER": "`community` under `[identity]` in the configuration of "
    "`maia domain serve` names its community of interest",
    "REFUSED-NOT-REGISTERED": "an administrator registers a key with `maia domain subject add`",
    "INPUT-UNKNOWN-SUBJECT": "`maia domain subject list` and `maia domain trust list` show the keys",
    "CREDENTIAL-IDENTITY-PROVIDER": "an administrator trusts a provider with `maia domain trust add`",
    "CREDENTIAL-IDENTITY-COMMUNITY": "ask your home domain for a statement in the community of this one",
    "CREDENTIAL-IDENTITY-EXPIRED": "ask your home domain for a new one with `maia domain identity`",
    "CREDENTIAL-IDENTITY-GUEST": "show the statement of the home domain, and not a guest statement",
    "CREDENTIAL-TPM-ENDORSEMENT": "`maia tpm approve --root` approves a maker of TPMs",
    "CREDENTIAL-TPM-KEY": "`tpm2_createak` makes an attestation key",
    "CREDENTIAL-TPM-QUOTE": "ask for a new nonce with `maia tpm quote --nonce-out`, and quote once more",
    "CREDENTIAL-TPM-LOG": "the log is `binary_bios_measurements` of this boot",
    "REFUSED-TPM-NOT-APPROVED": "an administrator approves a boot with `maia tpm approve`",
    "REFUSED-TPM-NOT-ENROLLED": "`maia tpm enrol` comes first, then `maia tpm quote --nonce-out`",
    "REQUEST-TOO-LATE": _CLOCKS,
    "REQUEST-TOO-EARLY": _CLOCKS,
}
"""By the code of an error: what to try next."""
