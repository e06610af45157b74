"""What may this principal do here? Rights, one-time tests, type versions, rates, replayed requests."""
