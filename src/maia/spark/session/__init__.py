"""Spark sessions: Java, cluster, settings."""
