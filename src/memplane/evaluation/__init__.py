"""How well recall finds what it should: questions whose answers are known, and their figures.

The flow is `running`; it asks a plane as any door does. What it reads is `dataset`, and what the
answers add up to is `figures`.
"""
