"""What only a paper needs: its figures, tables and variants, which no audit of ours runs."""
