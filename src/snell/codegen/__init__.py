"""snell.codegen"""
