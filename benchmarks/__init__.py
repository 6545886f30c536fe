"""Speed, as ratios within one run: `python -m benchmarks [NAME]... [--rounds N]`.

A benchmark is a function that takes the number of rounds and returns figures; it is entered in
`__main__.py`. Machines differ, so a limit is a ratio or a difference to something measured in
the same run, in turns.
"""
