"""Public test tools: a simulated network in one process, from one seed."""
