"""One module per command; each returns a report value and prints nothing."""
