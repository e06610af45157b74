"""Who runs the key groups of a domain's types? A server as a value: no sockets, no clock, no disk."""
