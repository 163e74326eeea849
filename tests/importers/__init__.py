"""Tests of ``snell.importers``."""
