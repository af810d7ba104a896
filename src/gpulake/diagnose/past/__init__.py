"""Past incidents: how they are recorded, and how like ones are found."""
