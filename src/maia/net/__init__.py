"""TLS links, timers, stores, status and telemetry: what every process of a network runs on."""
