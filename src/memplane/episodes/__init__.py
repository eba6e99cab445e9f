"""What was learned from what happened: retain, recall, forget."""
