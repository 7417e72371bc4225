"""Files of jobs on disk: how they come in, where they lie, what they are, how much room is left.

The rules of this room: a file is whole or absent. It is written beside its place, flushed with its
folder, and only then gets its name; nothing that has a name is ever changed. What a file is, its
first bytes say, not its sender.

The idea: the row that speaks of a file is committed after the file is safe, so a crash may leave a
file that no row knows (the actors sweep those), and never a row without its file.

Deliberately absent: who owns a file and who may read it. That is in the rows, and asked elsewhere.
"""
