"""Names under which rows of older files are kept, and are found still."""

from hashlib import sha256


def digest_before(named: str) -> str:
    """Work out under which digest a short key was kept before schema 10."""
    return sha256(named.encode()).hexdigest()
