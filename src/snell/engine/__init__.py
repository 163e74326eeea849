"""snell.engine"""
