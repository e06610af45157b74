"""Event types, topics, and filters over both."""
