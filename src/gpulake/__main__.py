"""python -m gpulake"""

from gpulake.cli import main

main()
