"""Types, words and settings that all rooms share. Imports no other package of gpulake."""
