"""How long what is over is kept, as the operator writes it down."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.config.overrides import laid_over
from jobrunner.config.reading import load
from jobrunner.config.retention import retention_terms
from jobrunner.config.settings import Config, RetentionSettings, WorkflowSettings
from jobrunner.core.declaration.workflow import Edge, JobType, Quota, State, Workflow
from jobrunner.core.keeping.retention import RetentionTerms, WorkflowRetention
from jobrunner.errors import Misconfigured

DAY_S = 86_400
DECLARED = Workflow(
    name="parcel",
    version="1",
    initial="Waiting-Room",
    states=(
        State("Waiting-Room", "waiting"),
        State("Lost-It", "settled"),
        State("arrived", "final"),
    ),
    edges=(Edge("*", "arrived", ("engine",)),),
    job_types=(JobType("small", "Params", 1),),
)
WRITTEN = """
[retention]
ended = "30d"
files = "1d"
[workflows.parcel.retention]
arrived = "90d"
"lost-it" = 0
keep = 1000
[workflows.letter.retention]
sent = "1s"
"""


def read(tmp_path: Path, text: str, **environ: str) -> Config:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load(file, environ)


def faults(ages: dict[str, float]) -> tuple[str, ...]:
    settings = WorkflowSettings(retention=RetentionSettings(ages=ages))
    return laid_over(DECLARED, settings)[1]


def test_a_status_has_its_own_age_and_all_others_the_common_one(tmp_path: Path) -> None:
    config = read(tmp_path, WRITTEN)
    terms = retention_terms(config, [DECLARED], [])
    assert terms.age_s("parcel", "arrived") == 90 * DAY_S
    assert terms.age_s("parcel", "Waiting-Room") == 30 * DAY_S
    assert terms.age_s("parcel", "Lost-It") == 0, "names are compared without case and dashes"
    assert terms.spares("parcel", "Lost-It")
    assert not terms.spares("parcel", "arrived")
    assert (terms.most("parcel"), terms.most("other")) == (1000, None)
    assert terms.age_s("other", "done") == 30 * DAY_S
    assert (terms.ended_s, terms.files_s, terms.audit_s) == (30 * DAY_S, DAY_S, 0)


def test_of_a_workflow_that_is_not_loaded_and_has_settings_nothing_goes(tmp_path: Path) -> None:
    """It may have been refused for a slip of the pen in just these."""
    config = read(tmp_path, WRITTEN)
    terms = retention_terms(config, [], ["parcel", "plain"])
    assert terms.age_s("letter", "sent") == terms.age_s("parcel", "arrived") == 0
    assert terms.most("parcel") is None
    assert terms.age_s("plain", "done") == 30 * DAY_S


def test_tombstones_stay_as_long_as_a_quota_counts_them(tmp_path: Path) -> None:
    config = read(tmp_path, '[retention]\nkeys = "1s"')

    def kept_s(quota: Quota) -> float:
        terms = retention_terms(config, [replace(DECLARED, quota=quota)], [])
        return (10**13 - terms.records(10**13)["keys"]) / 1000

    assert kept_s(Quota()) == kept_s(Quota(per_minute=5)) == 60
    assert kept_s(Quota(per_day=5)) == DAY_S


def test_by_default_all_is_kept_but_keys_firings_and_batches() -> None:
    terms = retention_terms(load(None, {}), [DECLARED], [])
    assert terms.age_s("parcel", "arrived") == 0
    assert set(terms.records(10**13)) == {"keys", "firings", "batches"}


def test_the_environment_names_statuses_too(tmp_path: Path) -> None:
    name = "JOBRUNNER_WORKFLOWS__PARCEL__RETENTION__LOST_IT"
    config = read(tmp_path, "", **{name: "2d"})
    terms = retention_terms(config, [DECLARED], [])
    assert terms.age_s("parcel", "Lost-It") == 2 * DAY_S


def test_a_status_that_is_not_there_or_where_no_job_ends_is_refused_with_the_cure() -> None:
    assert faults({"arrivd": 1}) == (
        "workflows.parcel.retention.arrivd: no such state; did you mean 'arrived'?",
    )
    (told,) = faults({"Waiting-Room": 1})
    assert told.startswith("workflows.parcel.retention.Waiting-Room: is a waiting state")
    assert told.endswith("a job does not end there, but in Lost-It, arrived")
    assert faults({"arrived": 1, "Lost-It": 0}) == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[workflows.x.retention]\nkeep = "30d"', "workflows.x.retention.keep = '30d': must be a"),
        ("[workflows.x.retention]\ndone = -1", "workflows.x.retention.done = -1: must be a dur"),
        ("[workflows.x]\nretention = 3", "workflows.x.retention = 3: must be a table of keys"),
        ("[retention]\nendet = 3", "retention.endet: no such key; did you mean 'ended'?"),
        ('[store]\nwal_max = "1MiB"', "store.wal_max = 1048576: must be at least 8388608 (8MiB)"),
    ],
)
def test_what_is_wrong_is_told_by_name(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        read(tmp_path, text)
    assert told in str(refused.value)


def test_it_looks_often_where_something_is_kept_for_a_short_time() -> None:
    def every_s(**settings: Any) -> float:
        return RetentionTerms(**settings).look_every_s

    assert every_s() == 600
    assert every_s(ended_s=60) == 5
    assert every_s(ended_s=3600) == 180
    assert every_s(workflows={"x": WorkflowRetention({}, 5)}) == 5
    assert every_s(keys_s=0) == 600
