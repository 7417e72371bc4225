"""Jobs that belong together, while they live: ``bearing`` answers a stage that submits children or
waits for them, ``partings`` tells parents and children of each other's ends, ``lineage`` shows a
family, and ``batches`` takes many submissions under one name.
"""
