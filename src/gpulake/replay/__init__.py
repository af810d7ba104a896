"""Tables to what-if and to others' simulators: exports, one file each."""
