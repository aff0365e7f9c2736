"""DP features of released libraries, run as they are, against what they state."""
