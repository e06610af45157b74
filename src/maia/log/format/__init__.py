"""The bytes of the event log: records, journals, segments, manifest. No disk."""
