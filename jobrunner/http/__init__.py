"""The door: HTTP in, messages to the actors, snapshots out.

``routes`` holds one file per feature, in folders by whom it serves: jobs, files, workers, admin and
pages. Each file has the structs that come in and go out, and the handlers, each under its route;
``routes.table`` is their order. ``frame`` is what all routes share, and knows none of them.
``front`` stands before both and decides who may come in when too many want to.

The rules of this room:

1. A route is declared once, as the ``Endpoint`` that decorates its handler: what can be called, by
   whom, with what, and what may come back. The server, the OpenAPI document, the 405s and the tests
   are made from that.
2. A handler is a function of one ``HttpCall`` that returns an ``HttpReply`` or raises
   ``errors.Refused``. It reads through the reader that it is handed and writes through the facade
   of ``actors``. It decides nothing about lifecycles, and it never sees the store.
3. Everything that comes in is parsed once, into a frozen struct that refuses unknown fields, before
   anybody acts on it. Nothing that a client sends is answered with a 5xx: those are ours alone
   (no room, draining, a plugin that is not loaded, a bug).
4. A job that is not the caller's reads like one that does not exist, byte for byte, unless its
   workflow says otherwise.
5. Every error is a problem document with a stable code and the correlation id of its request, and
   it is made in one place (``frame.problems``).
6. A class may be renamed, its name in the OpenAPI document may not: ``frame.openapi`` keeps the
   published names of those that are called otherwise here.

The idea, in one line: *translate at the door, and nowhere else.* ``frame.bodies`` and
``frame.inputs`` turn bytes into values, ``frame.views`` turns values into bytes; between them there
is only the core's language.

Deliberately absent: forms, templates, rights that only a page enforces, and TLS (a reverse proxy
has that).
"""
