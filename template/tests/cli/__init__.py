"""The real command line, each time as a process of its own."""
