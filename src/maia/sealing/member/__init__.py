"""A member of key groups: joining, following rekeys, losing keys in time."""
