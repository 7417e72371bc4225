"""Files that come with the program, beside its code: read as they are."""

from importlib.resources import files


def shipped(package: str, *place: str) -> bytes:
    return files(package).joinpath(*place).read_bytes()


def shipped_in(package: str, *folder: str) -> tuple[str, ...]:
    """The names of the files in this folder."""
    inside = files(package).joinpath(*folder).iterdir()
    return tuple(sorted(one.name for one in inside if one.is_file()))
