"""Server-sent events and publishing over HTTP: who calls, streams, and the pages."""
