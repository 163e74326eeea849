"""Tests of ``snell.llm``."""
