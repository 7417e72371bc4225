"""Jobs that belong together: a job and those that its stages submit, and the jobs of a batch.

``awaiting`` decides about waits for children; ``kinship`` says what a decision means to parent,
children and batch. ``parentage``, ``relatives`` and ``batches`` are data: what is kept, written and
asked of them.
"""
