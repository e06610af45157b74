"""MQTT 5.0 and 3.1.1 on the server's side: packets, and one client's session as a value."""
