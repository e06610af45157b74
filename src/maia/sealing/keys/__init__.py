"""Epochs, key rings, delivery of keys, keys of the past."""
