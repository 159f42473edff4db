"""Who may act on a job, and what they do: the launch loop, and the table that decides what comes next."""
