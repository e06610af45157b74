"""Who can see what: the closure of all certificates of a pool, computed in Spark, and its questions."""
