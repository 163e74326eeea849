"""Operations: every function a user can call, one concept a file, all built from the twelve primitives."""
