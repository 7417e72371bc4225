"""The verbs of ``jobrunner db``: what an operator does to the stored file.

They work on the file itself while nobody serves from it, and go through the admin's routes while
somebody does; ``service`` in the frame knows which. A verb says beforehand what it would take away,
and asks nothing of a service that a plain copy of the file could answer. One file a feature, under
the word that it has in the layers below.
"""
