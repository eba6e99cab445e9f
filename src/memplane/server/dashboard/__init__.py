"""Pages for operators: what the agents know, and putting it right."""
