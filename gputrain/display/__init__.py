"""What a person sees: tables, and the live view of jobs and experiments."""
