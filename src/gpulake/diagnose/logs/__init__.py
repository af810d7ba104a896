"""Reading logs: files, tails, shapes of lines, what stands out of them."""
