"""The built-in provider: it speaks on loopback what a hosted one speaks over the internet, so a
machine without one walks exactly the same way, orders, webhooks, downloads and all.

1. ``desk`` takes orders over HTTP, keeps them in a folder, and says by signed webhook what became
   of them. It remembers orders by their idempotency key, and goes on after a restart.
2. ``drawing`` (with ``lettering``), ``filming`` and ``speaking`` make things, at a ``workbench``
   that is a process group of its own: nothing that takes long happens in the service, and all of
   it ends with the service, however that ends.
3. What it makes is real and simple, by rules and not by a model, and says so.

Absent on purpose: accounts and keys. It listens on loopback only, and its address is open to the
stages of this plugin alone.
"""
