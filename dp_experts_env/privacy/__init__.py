"""Privacy: mechanisms, accounting and, on top of them, the privacy game."""
