"""The audit trail: events of memory operations and tool calls, from logs and ledgers."""
