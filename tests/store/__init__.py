"""Tests of ``snell.store``."""
