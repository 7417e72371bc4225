"""The place of a copy that another machine can take over from, as it lies in a folder.

    PATH/token/held.00000003.…          who may serve; every change of it is a renaming
    PATH/lines/00000003.000001/base.000000000000.db      the whole file, as of one moment
                               base.000000000000.json    its size and digest; written after it
                               000000000001.change       pages that commits have changed since
    PATH/files/…                        the files of jobs, at the paths that their rows have
    PATH/beside/…                       the small files that lie beside the database

Nothing is written in place: a part gets its name when all of it is on the disk, so what has a name
is whole, and its digest finds out what became of it since. Renaming is what a folder does at once
or not at all, on this machine and on a server of files, so it decides who has the token.
"""
