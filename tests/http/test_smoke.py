import pytest
pytestmark = pytest.mark.anyio

async def test_smoke(house):
    for path in ("/healthz","/readyz","/openapi.json"):
        said = await house.nobody.get(path); print(path, said.status, said.raw[:200])
    job = await house.ada.submit("howera")
    print(job)
    for path in ("","/history","/attempts","/assets","/explain"):
        said = await house.ada.get(f"/jobs/{job['id']}{path}"); print(path, said.status, said.raw[:300])
