"""Other brokers: links to them, their interests and offers, the proofs behind these, replicas."""
