"""Autodiff: derivatives as graphs, made from graphs.  Rules are written once, for reverse mode, a primitive at a time."""
