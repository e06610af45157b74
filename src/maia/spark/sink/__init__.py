"""Derived events that leave Spark for the network."""
