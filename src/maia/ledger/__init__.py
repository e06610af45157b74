"""The ledger of disclosures: what was delivered to whom, when, on which certificates; never a value."""
