"""A service from which another machine can take over at any moment, and that other machine.

The copy's place decides who serves. Whoever serves has its token and renews it there; what it may
do follows from the last renewal by a clock that nobody sets, so a process that was asleep, or was
cut off from the place, knows by itself that its time is over. Whoever takes over changes the token
first, and then waits for as long as a renewal is good. So there is no moment in which two
acknowledge, and nobody has to reach the other one.

A commit is acknowledged when every commit older than the lag is in the copy. With a lag of 0 that
is the commit itself, and then no clock is needed: the token is renewed behind the copy, and a
renewal that succeeds proves that nobody had taken over before the copy was there.
"""
