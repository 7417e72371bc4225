"""Worlds that Prometheus might see, for its rules: one in which all is well, and for each alert one
in which it is to be heard. Values are in promtool's short form, a minute apart."""

HERE = 'job="jobrunner",instance="a"'
OF_W = f'{HERE},workflow="w"'
Series = dict[str, str]


def limit(key: str) -> str:
    return f'jobrunner_limit{{{HERE},key="{key}"}}'


def bucket(name: str, edge: str) -> str:
    return f'jobrunner_{name}_bucket{{{HERE},le="{edge}"}}'


def late(name: str, quick: str, slow: str) -> Series:
    """Most are slower than one edge, and none slower than the next."""
    return {
        bucket(name, quick): "0+10x600",
        bucket(name, slow): "0+60x600",
        bucket(name, "+Inf"): "0+60x600",
    }


def quick(name: str, edge: str) -> Series:
    return {bucket(name, edge): "0+60x1440", bucket(name, "+Inf"): "0+60x1440"}


WELL: Series = {
    f"up{{{HERE}}}": "1x1440",
    f"jobrunner_ready{{{HERE}}}": "1x1440",
    f"process_start_time_seconds{{{HERE}}}": "1x700 2x740",
    f"process_open_fds{{{HERE}}}": "100x1440",
    f"process_max_fds{{{HERE}}}": "1000x1440",
    **quick("loop_lag_seconds", "0.001"),
    **quick("timer_lag_seconds", "0.5"),
    **quick("commit_fsync_seconds", "0.01"),
    f'jobrunner_http_refusals_total{{{HERE},code="NOT_FOUND"}}': "0+5x1440",
    f'jobrunner_http_refusals_total{{{HERE},code="OVERLOADED"}}': "3x1440",
    f"jobrunner_jobs_stuck{{{OF_W}}}": "0x1440",
    f"jobrunner_dead_letter_timestamp_seconds{{{HERE}}}": "-100000x1440",
    f'jobrunner_schedule_failure_timestamp_seconds{{{HERE},schedule="s"}}': "-100000x1440",
    f'jobrunner_jobs_ended_total{{{OF_W},outcome="completed"}}': "0+10x1440",
    f'jobrunner_jobs_ended_total{{{OF_W},outcome="failed"}}': "0+1x1440",
    f"jobrunner_unclaimed_oldest_seconds{{{OF_W}}}": "0x1440",
    f"jobrunner_queue_oldest_seconds{{{HERE}}}": "60x1440",
    f"jobrunner_attempts_in_line{{{HERE}}}": "500x1440",
    limit("limits.queued_jobs"): "1000x1440",
    f'jobrunner_pause_seconds{{{HERE},scope="stage",name="s"}}': "0+60x1440",
    f"jobrunner_disk_free_bytes{{{HERE}}}": "10000000x1440",
    limit("limits.free_disk"): "1000000x1440",
    f"jobrunner_store_wal_bytes{{{HERE}}}": "150x1440",
    limit("store.wal_max"): "100x1440",
    f"jobrunner_backup_timestamp_seconds{{{HERE}}}": "0x1440",
    limit("backup.every"): "0x1440",
    f"jobrunner_standby_lease_seconds{{{HERE}}}": "0x1440",
    limit("standby.lease"): "0x1440",
    f"jobrunner_retention_due{{{HERE}}}": "900000-60x1440",
    f"jobrunner_log_faulty{{{HERE}}}": "0x1440",
    f"jobrunner_log_lost_lines_total{{{HERE}}}": "70x1440",
    f"jobrunner_endpoints_failing{{{HERE}}}": "0x1440",
    f'jobrunner_webhooks_total{{{HERE},source="s",verdict="applied"}}': "0+5x1440",
}

# When it is to be heard, by which labels, and where it is not yet or no more.
ILL: dict[str, tuple[str, str, Series]] = {
    "JobrunnerDown": ("10m", HERE, {f"up{{{HERE}}}": "0x20"}),
    "JobrunnerNotReady": ("10m", HERE, {f"jobrunner_ready{{{HERE}}}": "0x20"}),
    "JobrunnerRestarting": (
        "25m",
        HERE,
        {f"process_start_time_seconds{{{HERE}}}": "1x5 2x5 3x5 4x10"},
    ),
    "JobrunnerLoopLags": ("30m", 'instance="a"', late("loop_lag_seconds", "0.5", "1")),
    "JobrunnerOverloaded": (
        "30m",
        'instance="a"',
        {f'jobrunner_http_refusals_total{{{HERE},code="OVERLOADED"}}': "0+6x40"},
    ),
    "JobrunnerFilesOpen": (
        "30m",
        HERE,
        {
            f"process_open_fds{{{HERE}}}": "900x40",
            f"process_max_fds{{{HERE}}}": "1000x40",
        },
    ),
    "JobrunnerJobsStuck": ("10m", OF_W, {f"jobrunner_jobs_stuck{{{OF_W}}}": "2x20"}),
    "JobrunnerDeadLetters": (
        "30m",
        HERE,
        {f"jobrunner_dead_letter_timestamp_seconds{{{HERE}}}": "600x40"},
    ),
    "JobrunnerScheduleMissed": (
        "30m",
        f'{HERE},schedule="s"',
        {f'jobrunner_schedule_failure_timestamp_seconds{{{HERE},schedule="s"}}': "600x40"},
    ),
    "JobrunnerJobsFail": (
        "40m",
        'instance="a",workflow="w"',
        {
            f'jobrunner_jobs_ended_total{{{OF_W},outcome="completed"}}': "0+1x60",
            f'jobrunner_jobs_ended_total{{{OF_W},outcome="failed"}}': "0+1x60",
        },
    ),
    "JobrunnerJobsUnclaimed": (
        "30m",
        OF_W,
        {f"jobrunner_unclaimed_oldest_seconds{{{OF_W}}}": "1000x40"},
    ),
    "JobrunnerLineStands": ("30m", HERE, {f"jobrunner_queue_oldest_seconds{{{HERE}}}": "1000x40"}),
    "JobrunnerLineFull": (
        "30m",
        HERE,
        {
            f"jobrunner_attempts_in_line{{{HERE}}}": "900x40",
            limit("limits.queued_jobs"): "1000x40",
        },
    ),
    "JobrunnerPauseForgotten": (
        "30m",
        f'{HERE},scope="workflow",name="w"',
        {f'jobrunner_pause_seconds{{{HERE},scope="workflow",name="w"}}': "90000x40"},
    ),
    "JobrunnerTimersLate": ("30m", 'instance="a"', late("timer_lag_seconds", "2.5", "5")),
    "JobrunnerDiskLow": (
        "30m",
        HERE,
        {
            f"jobrunner_disk_free_bytes{{{HERE}}}": "3000000x40",
            limit("limits.free_disk"): "1000000x40",
        },
    ),
    "JobrunnerDiskFills": (
        "4h",
        HERE,
        {f"jobrunner_disk_free_bytes{{{HERE}}}": "1000000-1000x300"},
    ),
    "JobrunnerDiskSlow": ("40m", 'instance="a"', late("commit_fsync_seconds", "0.25", "0.5")),
    "JobrunnerLogOfStoreLarge": (
        "30m",
        HERE,
        {f"jobrunner_store_wal_bytes{{{HERE}}}": "300x40", limit("store.wal_max"): "100x40"},
    ),
    "JobrunnerBackupOld": (
        "5h",
        HERE,
        {
            f"jobrunner_backup_timestamp_seconds{{{HERE}}}": "0x400",
            limit("backup.every"): "3600x400",
        },
    ),
    "JobrunnerStandbyUnreached": (
        "5m",
        HERE,
        {
            f"jobrunner_standby_lease_seconds{{{HERE}}}": "0x400",
            limit("standby.lease"): "15x400",
        },
    ),
    "JobrunnerRetentionBehind": (
        "6h",
        HERE,
        {f"jobrunner_retention_due{{{HERE}}}": "20000+1x400"},
    ),
    "JobrunnerLogFaulty": (
        "30m",
        HERE,
        {f"jobrunner_log_lost_lines_total{{{HERE}}}": "0+1x40"},
    ),
    "JobrunnerEndpointsFail": (
        "1h",
        HERE,
        {f"jobrunner_endpoints_failing{{{HERE}}}": "1x90"},
    ),
    "JobrunnerWebhooksRefused": (
        "1h",
        'instance="a",source="s"',
        {f'jobrunner_webhooks_total{{{HERE},source="s",verdict="refused"}}': "0+2x90"},
    ),
}
