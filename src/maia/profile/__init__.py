"""Who is this participant, and where is everything that it needs?

A profile is one folder, such as `lab.maia`: a key, certificates, types, and a
file that names the network, its brokers and the domain's server. Commands,
programs and Spark jobs take one profile instead of seven options.
"""

from maia.profile.profile import (
    PROFILE_FILE,
    PROFILE_SUFFIX,
    Profile,
    UnknownTypeName,
    checked_profile_name,
    find_profile,
    read_profile,
    write_profile,
)

__all__ = [
    "PROFILE_FILE",
    "PROFILE_SUFFIX",
    "Profile",
    "UnknownTypeName",
    "checked_profile_name",
    "find_profile",
    "read_profile",
    "write_profile",
]
