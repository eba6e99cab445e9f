"""The Model Context Protocol: memory as tools and documents as resources, for any agent."""
