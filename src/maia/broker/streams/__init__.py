"""What does a frame go through, live, from the log and as the present state?"""
