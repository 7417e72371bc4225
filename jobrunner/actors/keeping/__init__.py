"""The care of the service and its file while jobs run, one file a feature.

Tasks beside the actors of jobs: backups, retention, counts, health, leftovers. They take no part in
a job's life and make way for those who do.
"""
