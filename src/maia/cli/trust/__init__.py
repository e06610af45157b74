"""Keys, certificates, quorums and TPMs."""
