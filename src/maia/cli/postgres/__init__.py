"""`maia postgres`: a database that takes part in a network."""
