"""Tests of the rules that every file of the project keeps."""
