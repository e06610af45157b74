"""The network as a source of Structured Streaming."""
