"""What the demonstration shows on a screen."""
