"""Take part in a network: publish, subscribe, log in, and ask why an answer was no."""
