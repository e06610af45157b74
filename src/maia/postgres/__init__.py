"""A PostgreSQL database as a participant of a network.

`maia postgres` connects one database to one broker: events that arrive are stored in tables
(`store`), rows that applications write become events (`release`), and a query may make events of
events in the transaction that stores them (`derive`).
"""
