"""Formats of providers: what they are asked and how their answers are read, as pure functions.

The rules of this room: nothing here sends anything. A module makes the requests of one family of
providers as data, and reads their answers into results or into the failure that they mean.

The idea: a stage composes these with ``ctx.http``, so the same stage can be run against a fake
provider, and a format can be tested with texts alone.

Deliberately absent: clients, keys, and the names of single companies' products.
"""
