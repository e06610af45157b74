"""Subscriptions and advertisements: requests, registry, leases, local subscribers."""
