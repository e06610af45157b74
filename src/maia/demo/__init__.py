"""The papers' stories: who is in them and who granted what to whom, played on a real network."""
