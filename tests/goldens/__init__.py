"""What users and programs rely on, as it was: a difference is a decision, and not an accident."""
