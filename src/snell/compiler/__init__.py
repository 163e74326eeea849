"""snell.compiler"""
