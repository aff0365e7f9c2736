"""Other implementations of the same results, to compare speed and results with."""
