"""What is remembered of frames: on disk, and as the present state?"""
