"""snell.search: complete schedules sampled, ranked, checked, timed on the machine, and recorded."""
