"""Tools of this repository; none of them travels in the wheel."""
