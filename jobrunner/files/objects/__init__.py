"""Files in a store of objects that speaks S3, one object a file, each under a key of its own.

The rules: an object is whole or absent, which the store promises and we rely on. Its key holds the
digest of its content, so whatever lies under a key is the same however often it is put there, and
what comes back is compared with the name that it has. Nothing here knows a row.

The idea: files come in on the disk, as ever, and go to the store behind that; so nothing that
somebody sends waits for the store, and no half of a file is ever there or here.

Deliberately absent: a cache. A copy on the disk is a file in its place, and found there first.
"""
