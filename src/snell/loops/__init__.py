"""snell.loops"""
