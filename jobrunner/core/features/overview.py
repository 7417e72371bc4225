"""How everything stands at a glance: what the first page of the dashboard asks for."""

Tally = tuple[tuple[str, str, int], ...]
