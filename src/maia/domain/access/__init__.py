"""The access control service: roles, rights, register, revocation, audit."""
