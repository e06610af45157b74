"""`maia domain`: run a domain, and ask one that runs."""
