"""Measurements of the service from outside, and demonstrations of what it can do.

The rules of this room: the service is a process of its own, asked over HTTP as any client would. A
figure stands beside another one of the same run, since no two machines are alike; so ``suite``
measures the service beside servers that keep nothing or the least, beside another durable executor
where one is here, and ``overload`` beside its own peak. Rates depend on who else uses the machine,
so each stands beside the CPU of one unit of work, and beside how busy its client was. ``demo``
shows every installed workflow once. ``stored`` makes a file as years of work leave it.

The idea: an operator can repeat on their own machine every figure that the documents name.

Deliberately absent: asserts about time. What must hold is tested elsewhere; this room only tells.
"""
