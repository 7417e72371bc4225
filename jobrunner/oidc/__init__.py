"""Tokens of an identity provider (OpenID Connect), beside our own.

Whoever has a token that the operator's issuer signed for this service is who it names, with the
role that the operator gave to what it says. Nobody is stored: such a token is good until it ends,
and there is nothing here to revoke.

The rules of this room:

1. A token is believed when its signature is by a key of the issuer, by an algorithm with two keys,
   and issuer, audience and time fit; whatever a library raises on the way means that it is not.
   The algorithm is never the token's choice alone: ``none`` and those with one shared secret are
   unknown here, and a key signs only by the algorithm that it is for.
2. Only the issuer's own addresses lead to keys (``keyset``): a token's header does not say where
   keys are. They are fetched by the guarded way out, kept, and fetched again now and then; for a
   key that nobody knows once in a while, since everybody can name one.
3. Who it is comes from one claim, the role from another, by the operator's own list. A claim that
   is on no list is no role.

Deliberately absent: login pages, cookies, sessions, refreshing, introspection, tokens that are
encrypted. The library (joserfc) is an extra and imported here alone.
"""
