"""The broker as a process: configuration, sockets, files, log."""
