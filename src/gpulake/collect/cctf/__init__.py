"""From what a node left to the files of a run: parse, audit, schemas, and many nodes in one."""
