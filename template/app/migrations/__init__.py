"""Schema migrations, hand-written, inside the package so that they travel in the wheel.

`my-app db upgrade` runs them; `my-app db revision "what changes"` makes the next one.
"""
