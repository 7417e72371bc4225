"""The language in which a workflow is declared, and what is asked of a declaration while jobs run.

``workflow`` is data and nothing else. A registered function (``ask``) is a stranger's code, and is
called in one place (``functions``).
"""
