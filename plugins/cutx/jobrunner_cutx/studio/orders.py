"""The orders of the built-in provider, a file each: what was ordered, and what became of it."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

KEPT_S = 24 * 3600.0
KEPT_MAX = 2_000


class Order(Struct, frozen=True):
    """``told`` is when the webhook was taken, or given up: nothing is left to do."""

    id: str
    given: dict[str, Any]
    webhook: str
    repeat_key: str
    made_at: float
    status: str = "starting"
    output: str = ""
    error: str = ""
    told: bool = False

    @property
    def over(self) -> bool:
        return self.status in ("succeeded", "failed", "canceled")


class Book:
    """All orders, in memory and in a folder. A file is whole or not there; one that a power cut
    took is an order that nobody knows of. What is over is kept for a day, as are its files."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._orders: dict[str, Order] = {}
        for path in self._folder.glob("*.json"):
            try:
                order = msgspec.json.decode(path.read_bytes(), type=Order)
            except (OSError, msgspec.DecodeError):
                continue
            self._orders[order.id] = order
        self._by_key = {order.repeat_key: order.id for order in self if order.repeat_key}
        self._sweep()

    def __iter__(self) -> Iterator[Order]:
        return iter(sorted(self._orders.values(), key=lambda order: (order.made_at, order.id)))

    def __getitem__(self, order_id: str) -> Order:
        return self._orders[order_id]

    def find(self, order_id: str) -> Order | None:
        return self._orders.get(order_id)

    def known(self, repeat_key: str) -> Order | None:
        return self._orders.get(self._by_key.get(repeat_key, ""))

    def put(self, order: Order) -> Order:
        """A new one. Raises: OSError, and then it is not taken."""
        self._forget_old()
        self._write(order)
        self._orders[order.id] = order
        if order.repeat_key:
            self._by_key[order.repeat_key] = order.id
        return order

    def change(self, order_id: str, **changes: Any) -> Order:
        """Raises: OSError, and then it is changed in memory alone."""
        order = self._orders[order_id] = replace(self._orders[order_id], **changes)
        self._write(order)
        return order

    def place(self, order_id: str, name: str) -> str:
        """Where the output of an order lies."""
        return str(self._folder / order_id / name)

    def cleared(self, order_id: str) -> str:
        """Where its output is to be made, and nothing lies any more."""
        shutil.rmtree(self._folder / order_id, ignore_errors=True)
        (self._folder / order_id).mkdir()
        return self.place(order_id, "output")

    def _write(self, order: Order) -> None:
        draft = self._folder / f"{order.id}.new"
        try:
            draft.write_bytes(msgspec.json.encode(order))
            os.replace(draft, self._folder / f"{order.id}.json")
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def _forget_old(self) -> None:
        since, spare = time.time() - KEPT_S, len(self._orders) - KEPT_MAX
        for number, order in enumerate(one for one in self if one.over and one.told):
            if order.made_at < since or number < spare:
                self._orders.pop(order.id)
                self._by_key.pop(order.repeat_key, None)
                (self._folder / f"{order.id}.json").unlink(missing_ok=True)
                shutil.rmtree(self._folder / order.id, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what belongs to no order, from a life that ended in the middle of something."""
        for path in self._folder.iterdir():
            if path.suffix == ".json" and path.stem in self._orders:
                continue
            if path.is_dir() and path.name in self._orders:
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def as_told(order: Order, base: str) -> dict[str, Any]:
    """An order as the provider speaks of it, with its files where they are now."""
    url = f"{base}/v1/predictions/{order.id}"
    output = f"{base}/files/{order.id}/{order.output}" if order.output else None
    return {
        "id": order.id,
        "status": order.status,
        "input": order.given,
        "output": output,
        "error": order.error or None,
        "urls": {"get": url, "cancel": f"{url}/cancel"},
        "logs": "made by the built-in provider, by rules and not by a model",
    }
