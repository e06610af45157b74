"""Key trees: who shares a group's secret, and how the next one is broadcast."""
