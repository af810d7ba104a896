"""Bronze → silver → gold. The models are a dbt project; a build runs the plan that dbt compiled from it."""
