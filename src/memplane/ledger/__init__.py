"""The ledger: what happened, written once and kept for good."""
