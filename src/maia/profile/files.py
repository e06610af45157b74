"""By which files and names are profiles, organisations and types known?"""

from __future__ import annotations

from typing import Final

from maia.errors import BadInput

PROFILE_FILE: Final = "profile.toml"
PROFILE_SUFFIX: Final = ".maia"
ORGANISATION_FILE: Final = "organisation.toml"
"""The file by which a folder is an organisation's; the profiles of its members lie in the same folder."""


class UnknownTypeName(BadInput):
    """A name means no type that the participant knows, or several."""

    code = "INPUT-TYPE-NAME"
