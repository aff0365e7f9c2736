"""The data that the participants of a round are given: cohorts, canaries, examples."""
