"""What operators do to memory services: backfill, forget, audit, filling."""
