"""The agent's own identity in Azure: a certificate of this machine, and tokens in three hops."""
