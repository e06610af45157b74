"""The gateway as a process: sockets, the sessions at the broker, and what is kept on disk."""
