"""`maia console`: a web page for the people who run a domain, and for those who audit it."""
