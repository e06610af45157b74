"""The key server: key groups of the types whose owners have named it."""
