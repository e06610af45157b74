"""The event log in a folder: journals, segments, manifest, one writer, many readers."""
