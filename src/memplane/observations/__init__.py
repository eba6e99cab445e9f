"""What was learned, and how sure we are: observations, out of append-only memory events."""
