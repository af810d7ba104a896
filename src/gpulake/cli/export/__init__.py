"""Write what other tools take: a workload for a simulator, dashboards for Grafana."""
