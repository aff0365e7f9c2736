"""Other people's ways to the same numbers, for the clock and for equality."""
