"""The steps of a refresh under Prefect."""

import os

# Prefect reads these when it is imported, always after this package: its analytics stay off.
os.environ.update(PREFECT_SERVER_ANALYTICS_ENABLED="false", DO_NOT_TRACK="1")
