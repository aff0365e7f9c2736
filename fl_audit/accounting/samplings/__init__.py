"""Ways of sampling, one file each: what is drawn, how a log calls it, and what accounting knows."""
