"""Governed tables and streams over an event log."""
