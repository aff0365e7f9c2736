"""Lower bounds from the error rates of a threshold on the scores."""
