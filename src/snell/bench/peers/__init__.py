"""The implementations that can be measured, one module each; only the module that runs is imported."""
