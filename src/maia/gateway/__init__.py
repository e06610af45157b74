"""Ways into a network for clients that do not speak Maia; MQTT is the first."""
