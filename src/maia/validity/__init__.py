"""Fetching validity statements and one-time answers from where certificates say."""
