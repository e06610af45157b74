"""The one expression language: what it says, what it means, and what follows from it."""
