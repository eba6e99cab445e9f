"""Clawdapus: its pods, and the memory services that speak its wire format."""
