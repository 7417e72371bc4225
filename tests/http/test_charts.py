"""Charts over HTTP: who sees what of them, and that they are made once for all."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobrunner.http.routes.pages import charts
from tests.http.serving import Caller, House, definitions, opened

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Two jobs of one user, one of which is over; and one of another user and workflow."""
    folder = tmp_path_factory.mktemp("charts")
    registry = definitions(names=("howera", "image_generation"))
    async with opened(folder, registry=registry) as house:
        job = await house.ada.submit("howera")
        await house.ada.post(f"/jobs/{job['id']}/cancel")
        await house.ada.submit("howera")
        await house.eve.submit("image-generation", params={"prompt": "a lighthouse"})
        await house.service.facade.charts.flush()
        yield house


async def told(caller: Caller, span: str = "hour") -> Any:
    said = await caller.get(f"/overview/charts?span={span}")
    assert said.status == 200, said.raw
    return said.json


def by_workflow(view: Any) -> dict[str | None, tuple[int, dict[str, int]]]:
    return {
        one["workflow"]: (one["whole"]["made"], one["whole"]["ended"]) for one in view["charts"]
    }


@pytest.mark.parametrize(("span", "step_s", "buckets"), [("hour", 30, 120), ("week", 3600, 168)])
async def test_an_admin_sees_all_workflows(
    house: House, span: str, step_s: int, buckets: int
) -> None:
    view = await told(house.admin, span)
    assert (view["span"], view["step_s"], len(view["in_line"])) == (span, step_s, buckets)
    assert by_workflow(view) == {
        None: (3, {"canceled": 1}),
        "howera": (2, {"canceled": 1}),
        "image-generation": (1, {}),
    }
    for chart in view["charts"]:
        assert sum(chart["made"]) == chart["whole"]["made"]
        lines = [chart["made"], chart["p50_ms"], chart["p99_ms"], *chart["ended"].values()]
        assert {len(line) for line in lines} == {buckets}
    howera = view["charts"][1]
    assert [one for one in howera["p99_ms"] if one is not None] == [howera["whole"]["p99_ms"]]


async def test_a_user_sees_its_own(house: House) -> None:
    assert by_workflow(await told(house.ada)) == {
        None: (2, {"canceled": 1}),
        "howera": (2, {"canceled": 1}),
    }
    assert by_workflow(await told(house.eve, "day"))["image-generation"] == (1, {})


async def test_a_reader_sees_what_an_admin_sees(house: House) -> None:
    made = (await house.admin.post("/admin/tokens", {"name": "looker", "role": "reader"})).json
    seen = await told(house.caller(made["token"]), "week")
    assert by_workflow(seen) == by_workflow(await told(house.admin, "week"))


async def test_a_token_for_some_workflows_sees_those(house: House) -> None:
    order = {"name": "w2", "role": "workflow", "workflows": ["howera"]}
    made = (await house.admin.post("/admin/tokens", order)).json
    view = await told(house.caller(made["token"]))
    assert by_workflow(view) == {None: (2, {"canceled": 1}), "howera": (2, {"canceled": 1})}


async def test_what_is_no_span_is_refused(house: House) -> None:
    assert (await house.admin.get("/overview/charts?span=year")).code == "VALIDATION_ERROR"


async def test_they_are_made_once_until_there_is_something_new(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    view = charts._view

    def counted(*given: Any) -> Any:
        made.append(given[0])
        return view(*given)

    monkeypatch.setattr(charts, "_view", counted)
    keeper = house.service.facade.charts
    keeper.told.clear()
    seen = [(await told(house.admin, "week"))["begins_at"] for _ in range(3)]
    assert len(made) == len(set(seen)), "once, and again only when an hour begins"
    before = len(made)
    await house.ada.submit("howera")
    await keeper.flush()
    assert by_workflow(await told(house.admin, "week"))[None][0] == 4
    assert len(made) > before
