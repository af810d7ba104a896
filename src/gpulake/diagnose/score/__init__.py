"""How close diagnoses come to what is known."""
