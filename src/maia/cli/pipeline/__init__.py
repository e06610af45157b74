"""`maia pipeline`: events in Spark, under the rights of the caller."""
