"""Single features in the core: one file a feature, under the word that every layer uses.

The kernel (``decide`` and what it is made of) stands one folder above and works without most of
them; what a feature adds to a decision is a pure function that the kernel calls by name.
"""
