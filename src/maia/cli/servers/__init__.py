"""The servers of a network, what they measure, and the logs that they write."""
