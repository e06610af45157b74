"""PostgreSQL as a participant: one database beside one domain."""
