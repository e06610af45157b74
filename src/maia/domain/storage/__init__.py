"""What a domain keeps, as tables in SQLite or PostgreSQL."""
