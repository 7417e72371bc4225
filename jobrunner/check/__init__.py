"""The model checker: whether a declared lifecycle makes sense, before a single job walks it.

The rules of this room: it is as pure as the core, and it reads declarations only. ``checking`` asks
every other module here for its faults, in the order in which a reader would understand them. A
fault names its rule, says what is wrong with the likely cure, and shows one job that suffers.

The idea: the lifecycle of a workflow is a small finite graph, so whether every job ends, whether
money is settled once and whether every lock is let go can be found out instead of hoped for.

Deliberately absent: guards' answers. A guard may refuse whatever it likes, so no rule counts on
one. Absent too is everything that only a running job could tell.
"""
