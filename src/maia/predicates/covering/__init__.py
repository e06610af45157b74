"""Does one filter admit all that another admits? Exact sets, normal forms, an index of many filters."""
