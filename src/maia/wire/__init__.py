"""Messages and handshakes as values: what nodes say, and when they may say it. No sockets."""
