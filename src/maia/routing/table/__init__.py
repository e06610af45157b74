"""Routes by type: interests, offers, leases, what each neighbour was sent, replicas."""
