"""The operator's settings: the file, the environment laid over it, and both laid over declarations.

The rules of this room: settings are values. They are read once, at the start, into frozen structs;
a wrong one is refused by name with the likely cure, all of them at once; nothing here acts on one.

The idea: a default that is embedded here is the same in the code, in config.toml and in
docs/settings.md, and a test compares the three.

Deliberately absent: settings that change while the service runs.
"""
