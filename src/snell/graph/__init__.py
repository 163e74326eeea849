"""snell.graph"""
