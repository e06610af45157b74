"""Events matched against very many subscriptions as a distributed join."""
