"""Facts: where they come from, how they are kept, which are published."""
