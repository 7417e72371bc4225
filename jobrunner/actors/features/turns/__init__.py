"""Who waits in line for a reason of its own: rates, keys, and limits that change meanwhile."""
