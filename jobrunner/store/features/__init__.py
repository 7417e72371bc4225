"""The storage of single features: rows going in, answers coming out, one file a feature.

The kernel of the store (one writer, batches, rounds, the tables of jobs) stands one folder above.
"""
