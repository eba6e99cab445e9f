"""Other systems that memplane works with."""
