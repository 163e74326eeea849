"""Losses: functions of (prediction, target) to the number that training lowers."""

__all__ = []
