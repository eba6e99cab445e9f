"""Memory services that speak Clawdapus' wire format: recall, delivery, backfill, forget."""
