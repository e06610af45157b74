"""What does an organisation own, and to whom has it granted what?

An organisation is a folder with its key, its types, the profiles of its
members and the settings of its broker and its domain's server. It writes the
same files as `maia key`, `maia type` and `maia cert`, in the same format.
"""

from maia.organisation.grant_file import Grant, read_grant
from maia.organisation.organisation import Organisation, find_organisation

__all__ = ["Grant", "Organisation", "find_organisation", "read_grant"]
