"""Measurements of the service from outside, and demonstrations of what it can do.

The rules of this room: the service is a process of its own, asked over HTTP as any client would. A
figure stands beside another one of the same run, since no two machines are alike; so ``compare``
measures the service beside servers that keep nothing or the least, and ``overload`` beside its own
peak. ``demo`` shows every installed workflow once. ``stored`` makes a file as years of work leave
it.

The idea: an operator can repeat on their own machine every figure that the documents name.

Deliberately absent: asserts about time. What must hold is tested elsewhere; this room only tells.
"""
