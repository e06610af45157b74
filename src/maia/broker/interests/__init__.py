"""What is wanted and offered where, and how do brokers tell each other?"""
