"""The way of a frame through a broker: one path of stages, for publishers and neighbours (`run.py`)."""
