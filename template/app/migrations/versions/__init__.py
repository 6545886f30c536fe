"""One module per revision, one line of history."""
