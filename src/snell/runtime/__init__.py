"""snell.runtime"""
