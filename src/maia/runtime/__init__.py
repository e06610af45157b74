"""The only home of clocks, disks, randomness and servers: everything below is handed what it needs.

Nothing is imported here, so that a command that reads a key file does not load Spark.
"""

__all__: list[str] = []
