"""Stages on a cluster: Dask starts them, and a line of our own carries what they say.

The service chooses a worker for each attempt (``seats``), has Dask run one function of ours there
(``performing``), and that calls back on a line (``frame_line``, ``door``). From then on the worker
is to the service what the process of a stage is: it is told its task, and says how it goes, in
frames of data (``frames``). The host of the attempt, with its log, ``once``, questions and
children, is that of every other stage. Files go along on the same line.

1. The service gives the orders. Dask is never told to try again, and whatever it does by itself
   finds no open door: the token of an attempt is good once, as long as that attempt is under way.
2. A seat is free when Dask says that nothing runs there. A stage that is told to stop and goes on
   has its worker restarted; until then the seat is taken.
3. Both ends of a line say now and then that they are there. When one hears nothing, the stage ends
   on its side, and the attempt on ours.
4. A worker that cannot do what is asked (another version, no such plugin, no nanny) is given
   nothing, and named.
5. The scheduler is asked every second who is there. While it does not answer there are no seats,
   and the service goes on without.

``distributed`` is imported when a cluster is set, and not before.

Deliberately absent: queues and retries of Dask, results that go through its scheduler, and code or
pickles on the line.
"""
