"""``db migrate``: the file brought to the schema of this program, or tried."""

from jobrunner.cli.frame.options import Flag, Where


def migrate(
    *,
    dry_run: Flag = False,
    without_copy: Flag = False,
    where: Where = Where(),
) -> None:
    """Bring the file to the schema of this program. A start does the same by itself.

    Parameters
    ----------
    dry_run
        Take every step, then take all of them back.
    without_copy
        Keep no copy of the old file: then there is no way back.
    """
    from jobrunner.store.keeping.migrating import migrate_alone

    path = where.load().store.path
    done = migrate_alone(path, dry_run=dry_run, copies=not without_copy)
    if not done.steps:
        print(f"{path} has schema {done.schema}, which is that of this program")
        return
    steps = ", ".join(map(str, done.steps))
    if dry_run:
        print(f"{path} has schema {done.schema}; it can be brought to {steps}")
        print("nothing was changed" + ("" if without_copy else f"; a copy would be {done.copy}"))
        return
    print(f"{path} had schema {done.schema} and was brought to {steps}")
    if done.copy:
        print(f"{done.copy} is how it was")
