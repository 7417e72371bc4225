"""The care of the file, so that it stays whole, small and known: one file a feature.

Unlike ``features``, whose rows belong to jobs, these look at the file as a whole: they copy it,
examine it, bring it up to date, put it back, take out of it what is over and measure the rest.
"""
