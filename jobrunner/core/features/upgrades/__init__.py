"""Declarations that change while jobs are under way: seen beforehand, moved over, made again.

``forecasts`` tells what a new declaration means for jobs under way, ``moving_over`` takes one job
to it, ``replays`` makes decisions on record again.
"""
