"""Jobs on a timetable: the one task that sleeps until the next moment, and what it does then."""
