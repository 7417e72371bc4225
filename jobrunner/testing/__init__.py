"""What measures and tries the service from outside its rooms.

The rules of this room: it may know everybody and nobody knows it. It uses the real rooms, wired
differently, and never copies them. What it measures it measures within one run and prints as
ratios, since a figure alone says more about the machine than about the program.

Deliberately absent: mocks.
"""
