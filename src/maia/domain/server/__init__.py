"""The domain as a process: configuration, background work, the stream of statements."""
