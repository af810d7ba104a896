"""The words that every room speaks. Imports nothing of ours."""
