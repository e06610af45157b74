"""The publication path, from a publisher's frame to the frames that leave; retained events."""
