"""The published study of the PAI trace, drawn again from the lake beside what was published."""
