"""How good a detector is, on series whose incidents are known."""
