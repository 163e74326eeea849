"""snell: a deep-learning library that finds the path of least time for a tensor program."""

__version__ = "0.1.0"
