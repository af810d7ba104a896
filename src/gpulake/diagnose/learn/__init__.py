"""Rules and filters that are proposed, tried, and approved by a person before they count."""
