"""Which solver: finding, ranking, searching, explaining."""
