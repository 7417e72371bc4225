"""The care of the stored file, as nouns and decisions: one file a feature, as in every layer.

How long what is over is kept, what a backup says of itself, how jobs at rest are counted. None of
it moves a job: a decision about a job never asks here.
"""
