"""The same steps under a scheduler, for those who plan and watch their work there."""

import os

# Prefect reads these when it is imported, which is after this package and never before: nothing of it phones home.
os.environ.update(PREFECT_SERVER_ANALYTICS_ENABLED="false", DO_NOT_TRACK="1")
