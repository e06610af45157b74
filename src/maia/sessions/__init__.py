"""One peer-session protocol for brokers, clients, key servers, key members and readers of history."""
