"""Where a file of a job belongs: a logical path that names its owner and its job, wherever the
bytes lie. A report may say it, as long as it is one of the job's own folder; else the path is made
here, from the file's address.

The first file of a job keeps its name, every other one gets its number in the job. A number can be
read back from the end of a name, so no two are alike, and nobody has to look which there are.
"""

import re

from msgspec.structs import replace

from jobrunner.core.job import Asset, Snapshot

NAME_MAX = 100
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")
PLAIN = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,100}")
NUMBERED = re.compile(r"-[0-9]+\Z")


def shelved(asset: Asset, job: Snapshot, folder: str = "") -> Asset:
    """The asset with its path, as the next file of ``job``."""
    own = "/".join(part for part in (folder, job.user_id, job.id) if part)
    above, _, said = asset.storage_path.rpartition("/")
    if above == own and PLAIN.fullmatch(said):
        return asset
    name = _name(asset, sum(job.asset_types.values()) + 1)
    return replace(asset, storage_path=f"{own}/{name}")


def _name(asset: Asset, number: int) -> str:
    address = re.split(r"[?#]", asset.url, maxsplit=1)[0].rstrip("/")
    plain = _plain(address.rpartition("/")[2]) or _plain(asset.asset_type) or "file"
    found = ENDING.search(plain)
    ending = found[0] if found else ""
    stem, suffix = plain.removesuffix(ending), f"-{number}"
    stem = stem[: NAME_MAX - len(suffix + ending)]
    if number == 1 and not NUMBERED.search(stem):
        return stem + ending
    return stem + suffix + ending


def _plain(text: str) -> str:
    """Without what a path may not hold; a leading dot would hide the file, or lead upwards."""
    return UNSAFE.sub("_", text).lstrip("._-")
