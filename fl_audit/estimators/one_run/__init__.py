"""Lower bounds from guesses at who was included (Steinke et al. 2023)."""
