"""Jobs on a timetable: the nouns of schedules, and the moments at which they are due."""
