"""What an application imports: connect, publish and subscribe, with and without an event loop."""
