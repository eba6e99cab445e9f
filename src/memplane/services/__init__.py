"""Other people's memory services: asking them, and the bodies that they are asked with."""
