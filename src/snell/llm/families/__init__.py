"""Model families: each file is the description of one architecture's layers."""
