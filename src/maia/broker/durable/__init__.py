"""Recording, and subscriptions that get what they missed."""
