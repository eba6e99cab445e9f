"""Who may do what: agents' names, tokens and their scopes, and the tokens of pods."""
