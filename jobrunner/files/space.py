"""How much of the disk stays free, whatever stages write."""

from jobrunner.errors import RetryableFailure
from jobrunner.ports import Files

MIB = 1024 * 1024


class Room:
    """Asked before something is written, and again while it grows. ``floor`` is how many bytes stay
    free on the disk of ``folder``; 0 asks nobody."""

    def __init__(self, files: Files | None = None, folder: str = "", floor: int = 0) -> None:
        self._files = files
        self._folder = folder
        self.floor = floor

    def __call__(self, size: int = 0) -> None:
        """Raises: RetryableFailure STORAGE_FAILED, when so many bytes more would be too many."""
        if self._files is None or not self.floor:
            return
        free = self._files.free(self._folder)
        if free - size < self.floor:
            text = (
                f"the disk of {self._folder} has {free // MIB} MiB free, of which "
                f"{self.floor // MIB} MiB are kept and {size} bytes are wanted: make room there, "
                "or lower [store] min_free"
            )
            raise RetryableFailure("STORAGE_FAILED", text)
