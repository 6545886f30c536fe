"""One program for each measured system. They run in environments without this repository's tools."""
