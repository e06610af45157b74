"""Peers on links: handshake, credentials, quotas, who may send which message."""
