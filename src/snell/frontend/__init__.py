"""snell.frontend"""
