"""The file to work on. The key of a job is fixed when it is made, so its input must fit the key."""

from jobrunner import Act, Ask, Refused


def take_input(ask: Ask) -> Act | Refused:
    """An upload: it is what the submission said it would be, and no plan covers another one."""
    (asset,) = ask.report.assets
    given = (ask.params.get("inputs") or {}).get("fingerprint") or ""
    if given and _plain(given) != asset.sha256:
        return Refused(
            "FINGERPRINT_MISMATCH",
            "this is not the input that the job was made for; make a new job for it",
            expected=given,
            received=asset.sha256,
        )
    plan = ask.snapshot.value("plan")
    covered = plan.get("fingerprint") if isinstance(plan, dict) else given or asset.sha256
    if _plain(str(covered)) != _plain(given or asset.sha256):
        detail = "the frozen plan covers another input; submit a new plan_revision to plan anew"
        return Refused("JOB_LOCKED", detail)
    return Act()


def _plain(fingerprint: str) -> str:
    """A digest may be written with its method before it, and in either case."""
    return fingerprint.strip().lower().removeprefix("sha256:").removeprefix("sha-256:")
