"""Readers of foreign model formats; each turns a file into arrays or a graph."""
